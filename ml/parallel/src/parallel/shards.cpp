#include "parallel/shards.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <functional>
#include <optional>

#include <pharos/actors/exceptions.hpp>

#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

at::ScalarType scalar_type_of(DType type) {
  switch (type) {
    case DType::kF16: return at::kHalf;
    case DType::kBF16: return at::kBFloat16;
    case DType::kF32: return at::kFloat;
    case DType::kF64: return at::kDouble;
    default:
      throw_error(Error{ErrorCode::kInvalidArgument,
                        "modules and gradients cannot have the type " + std::string{to_string(type)},
                        "Give a floating point type."});
  }
}

void check(const NamedTensor& parameter, at::Device device) {
  const at::Tensor& tensor = parameter.tensor;
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    throw_error(Error{ErrorCode::kUnsupported, "parameter \"" + parameter.name + "\" cannot be sharded: " + why, hint});
  };
  if (tensor.device() != device) {
    refuse("it is on " + tensor.device().str() + ", and the first one is on " + device.str(),
           "Move the whole module to one device.");
  }
  if (!dtype_of(tensor.scalar_type())) {
    refuse(std::string{"it is "} + c10::toString(tensor.scalar_type()), "Give real numbers of one of the usual types.");
  }
  if (!tensor.is_contiguous()) {
    refuse("it is not contiguous", "Call Tensor::contiguous() where the module makes it.");
  }
  if (!tensor.is_leaf())
    refuse("it is computed from other tensors, so it is not a leaf", "Register leaves as parameters.");
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(tensor);
  const bool is_taken = accumulator != nullptr && !accumulator->post_hooks().empty();
  if (is_taken || (tensor.numel() > 0 && tensor.const_data_ptr() == nullptr)) {
    refuse("its gradient is handled already by another object, such as another Sharded or a Ddp",
           "Destroy that object first.");
  }
  if (tensor.requires_grad() && tensor.grad().defined()) {
    refuse("it has a gradient already", "Call zero_grad(), or shard the module before it is trained.");
  }
}

/// Refuses tensors that overlap in memory. Each parameter gets memory of its own, so that a value written to one of
/// them would not be read from the other.
void check_apart(std::span<const NamedTensor> parameters) {
  std::vector<const NamedTensor*> by_place;
  for (const NamedTensor& each : parameters) by_place.push_back(&each);
  const auto begin = [](const NamedTensor* each) { return static_cast<const char*>(each->tensor.const_data_ptr()); };
  std::ranges::sort(by_place, std::less{}, begin);
  for (std::size_t i = 1; i < by_place.size(); ++i) {
    const NamedTensor& one = *by_place[i - 1];
    const NamedTensor& other = *by_place[i];
    if (other.tensor.numel() == 0 || begin(&one) + one.tensor.nbytes() <= begin(&other)) continue;
    throw_error(Error{ErrorCode::kUnsupported,
                      "parameters \"" + one.name + "\" and \"" + other.name +
                          "\" cannot be sharded: they are two tensors in the same memory",
                      "Register the same tensor by both names."});
  }
}

/// Refuses modules that change their parameters in forward: the pieces that the ranks keep would not change.
void check(const std::string& name, const torch::nn::Module& module) {
  const auto* const embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&module);
  const auto* const bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&module);
  const bool changes = (embedding != nullptr && embedding->options.max_norm().has_value()) ||
                       (bag != nullptr && bag->options.max_norm().has_value());
  if (!changes) return;
  throw_error(Error{ErrorCode::kUnsupported,
                    name + " cannot be sharded: an embedding with max_norm changes its weight in forward",
                    "Leave max_norm out, or clip the embedding's rows after the step."});
}

}  // namespace

void place(const at::Tensor& tensor, std::byte* memory) {
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr{memory, tensor.device()});
  storage->set_nbytes(memory == nullptr ? 0 : static_cast<std::size_t>(tensor.numel()) * tensor.itemsize());
}

at::ScalarType computed_type(const Flat& flat, const std::optional<DType>& asked) {
  return at::isFloatingType(flat.type) && asked ? scalar_type_of(*asked) : flat.type;
}

std::vector<ShardedUnit> sharded_units(const torch::nn::Module& module, std::span<const NamedTensor> parameters,
                                       const ShardOptions& options, const Communicator& data) {
  const std::uint32_t ranks = data.size();
  const at::Device device = parameters.empty() ? at::Device{at::kCPU} : parameters.front().tensor.device();
  for (const NamedTensor& each : parameters) check(each, device);
  check_apart(parameters);
  check("the module", module);
  for (const auto& item : module.named_modules("", false)) check('"' + item.key() + '"', *item.value());
  const Modules blocks = options.blocks.empty() ? blocks_of(module) : options.blocks;
  std::vector<ShardedUnit> units;
  for (Unit& unit : units_of(module, parameters, blocks, ranks)) {
    ShardedUnit& own = units.emplace_back(ShardedUnit{.name = std::move(unit.name), .is_rest = unit.is_rest});
    for (Flat& flat : unit.flats) {
      Shard shard{.flat = std::move(flat)};
      const bool is_real = at::isFloatingType(shard.flat.type);
      shard.device = device;
      shard.computed = computed_type(shard.flat, options.param);
      shard.sent = is_real && options.reduce ? scalar_type_of(*options.reduce) : shard.computed;
      shard.place = std::exchange(own.bytes, own.bytes + aligned(shard.bytes(ranks)));
      shard.gradient_place =
          std::exchange(own.gradient_bytes, own.gradient_bytes + aligned(shard.gradient_bytes(ranks)));
      own.shards.push_back(std::move(shard));
    }
  }
  return units;
}

void take_over(ShardedUnit& unit, std::span<const NamedTensor> parameters, Communicator& data, std::byte* memory) {
  const at::NoGradGuard no_grad;
  for (Shard& shard : unit.shards) {
    const Flat& flat = shard.flat;
    const at::ScalarType kept = kept_type(flat);
    const at::TensorOptions there = at::TensorOptions{}.device(shard.device);
    const std::int64_t elements = flat.piece * data.size();
    const std::int64_t begin = flat.piece * data.rank();
    {
      const at::Tensor values = at::zeros({elements}, there.dtype(kept));
      for (const Flat::Member& each : flat.members) {
        values.narrow(0, each.begin, each.size).copy_(parameters[each.parameter].tensor.view({each.size}));
      }
      data.broadcast(bytes_of(values), 0);
      const bool stays = memory != nullptr && shard.computed == kept;
      shard.own = stays ? tensor_on(memory + shard.place + static_cast<std::size_t>(begin) * c10::elementSize(kept),
                                    shard.device, kept, flat.piece)
                        : at::empty({flat.piece}, there.dtype(kept));
      shard.own.copy_(values.narrow(0, begin, flat.piece));
    }
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t{}, 0,
                                                         c10::DataPtr{nullptr, shard.device}, nullptr, false);
    storage->set_nbytes(shard.bytes(data.size()));
    shard.whole = at::empty({0}, there.dtype(shard.computed)).set_(c10::Storage{storage}, 0, {elements}, {1});
    for (const Flat::Member& each : flat.members) {
      const at::Tensor& parameter = parameters[each.parameter].tensor;
      // A parameter of another type gets another gradient accumulator. So hooks are added later
      // (Sharded::Core::attach()).
      parameter.set_data(shard.whole.narrow(0, each.begin, each.size).view(parameter.sizes()));
    }
    place(shard.whole, memory == nullptr ? nullptr : memory + shard.place);
  }
}

}  // namespace pharos::ml
