#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/random_state.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/training.hpp>

#include "module/parameters.hpp"
#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

constexpr const char* kModel = "model.";
constexpr const char* kOptimizer = "optimizer.";

[[noreturn]] void refuse(std::string why) {
  throw_error(Error{ErrorCode::kInvalidArgument, std::move(why)});
}

DType saved_dtype(const std::string& name, at::ScalarType type) {
  if (type == at::kBool) return DType::kU8;
  if (const auto dtype = dtype_of(type)) return *dtype;
  refuse('"' + name + "\" is of type " + c10::toString(type) + ", which checkpoints do not support");
}

at::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::kU8: return at::kByte;
    case DType::kI8: return at::kChar;
    case DType::kI32: return at::kInt;
    case DType::kI64: return at::kLong;
    case DType::kF16: return at::kHalf;
    case DType::kBF16: return at::kBFloat16;
    case DType::kF32: return at::kFloat;
    case DType::kF64: return at::kDouble;
  }
  refuse("the array has an unknown type");
}

/// Adds a tensor, or the part of it that this rank keeps. If it is not contiguous, or not on the CPU, a copy that is
/// takes its place in the state.
void add(State& state, StateSlice slice, const at::Tensor& tensor) {
  slice.dtype = saved_dtype(slice.name, tensor.scalar_type());
  at::Tensor lies = tensor.detach();
  if (!lies.is_contiguous() || !lies.is_cpu()) {
    lies = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
    slice.fetch = [lies, own = tensor.detach()] { lies.copy_(own); };
    slice.store = [lies, own = tensor.detach()] { own.copy_(lies); };
  }
  slice.bytes = bytes_of(lies);
  state.add(std::move(slice));
}

/// Adds a tensor that all ranks have whole.
void add_whole(State& state, StateSlice slice, const at::Tensor& tensor) {
  slice.shape = tensor.sizes().vec();
  slice.is_shared = true;
  add(state, std::move(slice), tensor);
}

/// Adds this rank's part of a divided tensor.
void add_part(State& state, StateSlice slice, const Sharded::Slice& of, const at::Tensor& values) {
  slice.shape = of.shape;
  slice.begin = static_cast<std::uint64_t>(of.begin);
  add(state, std::move(slice), values);
}

StateSlice steps_of(const std::string& name, Optimizer::State& kept, bool is_shared) {
  return {.name = name + ".steps",
          .dtype = DType::kI64,
          .bytes = std::as_writable_bytes(std::span{&kept.steps, 1}),
          .is_shared = is_shared};
}

[[noreturn]] void refuse_stranger(const at::Tensor& parameter) {
  refuse("the optimizer trains a parameter of " + parameter.toString() + " that the module does not have");
}

}  // namespace

void add_to(State& state, torch::nn::Module& module, const std::string& prefix) {
  for (const NamedTensor& each : parameters_of(module)) add_whole(state, {.name = prefix + each.name}, each.tensor);
  for (const NamedTensor& each : buffers_of(module)) {
    add_whole(state, {.name = prefix + each.name, .changes_early = true}, each.tensor);
  }
}

void add_to(State& state, Optimizer& optimizer, const torch::nn::Module& module) {
  std::unordered_map<const void*, std::string> names;
  for (const NamedTensor& each : parameters_of(module)) names.emplace(each.tensor.unsafeGetTensorImpl(), each.name);
  for (Optimizer::State& each : optimizer.states()) {
    const auto found = names.find(each.parameter.unsafeGetTensorImpl());
    if (found == names.end()) refuse_stranger(each.parameter);
    const std::string name = kOptimizer + found->second;
    const auto add = [&](const char* what, std::string_view value, const at::Tensor& kept,
                         std::vector<std::string> from) {
      const at::Tensor lies = kept.as_strided(each.parameter.sizes(), each.parameter.strides(), kept.storage_offset());
      add_whole(state, {.name = name + what + std::string{value}, .from = std::move(from)}, lies);
    };
    for (std::size_t i = 0; i < each.names.size(); ++i) add(".", each.names[i], each.values[i], {});
    if (each.whole.defined()) add(".whole", "", each.whole, {name + ".whole", kModel + found->second});
    state.add(steps_of(name, each, true));
  }
}

void add_to(State& state, Sharded& sharded, torch::nn::Module& module) {
  for (const NamedTensor& each : parameters_of(module)) {
    if (!each.tensor.is_contiguous()) refuse('"' + each.name + "\" is not contiguous, so its parts cannot be saved");
  }
  for (const Sharded::Slice& each : sharded.slices()) {
    const std::string name = kModel + each.name;
    // If ranks with copies have saved the checkpoint in half precision, it has the optimizer's float copy, which is
    // taken first.
    add_part(state, {.name = name, .from = {kOptimizer + each.name + ".whole", name}}, each, each.values);
  }
  for (const NamedTensor& each : buffers_of(module)) add_whole(state, {.name = kModel + each.name}, each.tensor);
  state.before_save([&sharded] { sharded.check(); });  // values that were written by mistake must not be saved
  state.after_load([&sharded] { sharded.refresh(); });
}

void add_to(State& state, Optimizer& optimizer, const Sharded& sharded) {
  std::unordered_map<const void*, const Sharded::Slice*> slices;
  for (const Sharded::Slice& each : sharded.slices()) slices.emplace(each.values.unsafeGetTensorImpl(), &each);
  for (Optimizer::State& each : optimizer.states()) {
    const auto found = slices.find(each.parameter.unsafeGetTensorImpl());
    if (found == slices.end()) refuse_stranger(each.parameter);
    const std::string name = kOptimizer + found->second->name;
    for (std::size_t i = 0; i < each.names.size(); ++i) {
      add_part(state, {.name = name + '.' + each.names[i]}, *found->second, each.values[i]);
    }
    state.add(steps_of(name, each, false));
  }
}

void add_to(State& state, Ema& ema) {
  for (const Ema::Mean& each : ema.means()) {
    add_whole(state, {.name = "ema." + each.name, .from = {"ema." + each.name, kModel + each.name}}, each.values);
  }
}

void add_to(State& state, Ema& ema, const Sharded& sharded) {
  std::unordered_map<std::string, const Sharded::Slice*> slices;
  for (const Sharded::Slice& each : sharded.slices()) slices.emplace(each.name, &each);
  for (const Ema::Mean& each : ema.means()) {
    StateSlice slice{.name = "ema." + each.name, .from = {"ema." + each.name, kModel + each.name}};
    const auto found = slices.find(each.name);
    if (found == slices.end()) {
      add_whole(state, std::move(slice), each.values);  // a buffer
    } else {
      add_part(state, std::move(slice), *found->second, each.values);
    }
  }
}

void add_to(State& state, GradScaler& scaler) {
  const auto save = [&scaler] { return *to_bytes(scaler.state()); };
  const auto load = [&scaler](std::span<const std::byte> bytes) {
    auto loaded = from_bytes<GradScaler::State>(bytes);
    if (!loaded) throw_error(std::move(loaded).error().with("loading \"scaler\""));
    scaler.set_state(*loaded);
  };
  state.add(State::Value{"scaler", false, save, load});
}

void add_random_to(State& state) {
  const auto save = [] { return RandomState::now().bytes(); };
  const auto load = [](std::span<const std::byte> bytes) { RandomState::from_bytes(bytes).restore(); };
  state.add(State::Value{"random", true, save, load});
}

// ---- Arrays

at::Tensor tensor_of(const Array& array) {
  const Array rows = array.dense();
  // libtorch has no read-only tensors, so const has to be cast away.
  auto* const data = const_cast<std::byte*>(rows.bytes().data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return at::from_blob(
      data, rows.shape(), [rows](void*) {}, at::TensorOptions{}.dtype(torch_type(rows.dtype())));
}

Array array_of(const at::Tensor& tensor) {
  const DType dtype = saved_dtype("a tensor", tensor.scalar_type());
  const at::Tensor rows = tensor.detach().cpu().contiguous();
  const auto bytes = bytes_of(rows);
  return {dtype, rows.sizes().vec(), Bytes{std::vector<std::byte>{bytes.begin(), bytes.end()}}};
}

std::vector<NamedArray> arrays_of(const torch::nn::Module& module) {
  std::vector<NamedArray> arrays;
  for (const auto& all : {parameters_of(module), buffers_of(module)}) {
    for (const NamedTensor& each : all) arrays.push_back({each.name, array_of(each.tensor)});
  }
  return arrays;
}

void load_arrays(torch::nn::Module& module, const std::vector<NamedArray>& arrays) {
  std::unordered_map<std::string_view, const Array*> given;
  for (const NamedArray& each : arrays) given.emplace(each.name, &each.array);
  std::vector<std::pair<at::Tensor, const Array*>> pairs;
  for (const auto& all : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& each : all) {
      const at::Tensor& tensor = each.value();
      if (!tensor.defined()) continue;
      const auto found = given.find(each.key());
      if (found == given.end()) continue;  // the file may have it under another of its names
      const Array& array = *found->second;
      if (array.shape() != tensor.sizes().vec()) {
        refuse('"' + each.key() + "\" is " + describe(array.dtype(), array.shape()) +
               " in the file, and the module's is " +
               describe(saved_dtype(each.key(), tensor.scalar_type()), tensor.sizes().vec()));
      }
      pairs.emplace_back(tensor, &array);
      given.erase(found);
    }
  }
  const auto is_given = [&](const at::Tensor& tensor) {
    return std::ranges::any_of(
        pairs, [&](const auto& pair) { return pair.first.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl(); });
  };
  for (const auto& all : {parameters_of(module), buffers_of(module)}) {
    for (const NamedTensor& each : all) {
      const bool is_newer = each.name.ends_with("num_batches_tracked");  // missing in files of old versions of PyTorch
      if (!is_given(each.tensor) && !is_newer) refuse("the file has no \"" + each.name + '"');
    }
  }
  if (!given.empty()) refuse("the module has no \"" + std::string{given.begin()->first} + '"');
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, array] : pairs) tensor.copy_(tensor_of(*array));
}

}  // namespace pharos::ml
