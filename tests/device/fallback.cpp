#include "fallback.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "generators.hpp"
#include "memory.hpp"

namespace pharos::simulated {
namespace {

using Values = std::vector<c10::IValue>;
using Change = std::function<at::Tensor(const at::Tensor&)>;

struct {
  std::atomic<std::uint64_t> queued{0};
  std::atomic<std::uint64_t> by_meta{0};
  std::atomic<std::uint64_t> by_zeros{0};
  std::atomic<std::uint64_t> synchronous{0};
} counts;

/// Changes each tensor of a value. Devices become `device`.
c10::IValue changed(const c10::IValue& value, c10::Device device, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& each : value.toTensorVector()) all.push_back(change(each));
    return all;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) {
      all.push_back(each ? std::optional{change(*each)} : std::nullopt);
    }
    return all;
  }
  if (value.isDevice()) return device;
  return value;
}

void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& look) {
  changed(value, c10::kCPU, [&](const at::Tensor& tensor) {
    if (tensor.defined()) look(tensor);
    return tensor;
  });
}

/// callBoxed() drops the arguments before it boxes the results. If an operator returns several of its arguments, it
/// boxes references to them, so somebody else has to hold them.
void call(const c10::OperatorHandle& op, Values& stack) {
  const Values held = stack;
  op.callBoxed(stack);
}

at::Tensor like(const at::Tensor& tensor, c10::Device device) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
}

/// One call of an operator.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Values arguments);

  /// The device of its tensors.
  c10::DeviceIndex device() const { return device_; }
  bool waits() const { return waits_; }

  /// Makes the results, without values.
  void make_results();
  /// Notes what the call reads and writes, as a piece of work of this queue.
  void note(const Queue& queue) const;
  /// Queues the CPU's kernel, and returns the results.
  Values run_later(Queue& queue);
  /// Waits for the device, and runs the CPU's kernel at once.
  Values run_now(Queue& queue);

 private:
  void find_device();
  void take_generator();
  void match_results();
  Values arguments_on(c10::Device device, const Change& change) const;
  std::optional<Values> shapes() const;
  Values shapes_by_zeros() const;
  Values for_cpu(KernelStorages& storages) const;
  std::size_t returns() const { return op_.schema().returns().size(); }
  bool makes(std::size_t result) const { return !argument_of_[result].has_value(); }

  const c10::OperatorHandle op_;
  const Values arguments_;
  c10::DeviceIndex device_ = 0;
  std::optional<at::Generator> generator_;               // what a random operator draws from
  std::vector<std::size_t> generator_places_;            // the arguments that are generators
  std::vector<std::optional<std::size_t>> argument_of_;  // the argument that each result is; none: it is a new tensor
  bool waits_ = false;
  std::vector<at::Tensor> results_;
};

Call::Call(const c10::OperatorHandle& op, Values arguments) : op_{op}, arguments_(std::move(arguments)) {
  find_device();
  take_generator();
  match_results();
}

// All tensors are on one device. Numbers on the CPU may be among them, and so may indices.
void Call::find_device() {
  std::optional<c10::DeviceIndex> found;
  const bool indexes = op_.schema().name().find("index") != std::string::npos;
  for (const c10::IValue& argument : arguments_) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!is_on_device(tensor)) {
        TORCH_CHECK(tensor.is_cpu() && (tensor.dim() == 0 || indexes), op_.operator_name(), " got a tensor on ",
                    tensor.device(), " among tensors of a simulated device");
        return;
      }
      TORCH_CHECK(!found || *found == tensor.device().index(), op_.operator_name(),
                  " got tensors on two simulated devices");
      found = tensor.device().index();
    });
  }
  for (const c10::IValue& argument : arguments_) {
    if (!found && argument.isDevice()) found = Streams::index_of(argument.toDevice());
  }
  device_ = found.value_or(Streams::device());
}

void Call::take_generator() {
  const auto& formals = op_.schema().arguments();
  const auto is_generator = c10::OptionalType::create(c10::GeneratorType::get());
  for (std::size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].type()->isSubtypeOf(*is_generator)) generator_places_.push_back(i);
  }
  if (!op_.hasTag(at::Tag::nondeterministic_seeded)) return;
  TORCH_CHECK(!generator_places_.empty(), op_.operator_name(), " draws random numbers, but takes no generator");
  const c10::IValue& given = arguments_[generator_places_.front()];
  generator_ = generator_of_kernel(given.isGenerator() ? given.toGenerator() : default_generator(device_));
}

void Call::match_results() {
  const auto& schema = op_.schema();
  argument_of_.resize(returns());
  results_.resize(returns());
  waits_ = op_.hasTag(at::Tag::dynamic_output_shape) || op_.hasTag(at::Tag::data_dependent_output);
  for (std::size_t result = 0; result < returns(); ++result) {
    const auto& returned = schema.returns()[result];
    if (!returned.type()->isSubtypeOf(*c10::TensorType::get())) waits_ = true;
    const auto* const alias = returned.alias_info();
    if (alias == nullptr) continue;
    TORCH_CHECK(alias->isWrite(), op_.operator_name(), " returns a view, so it needs a kernel of its own");
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const auto* const its = schema.arguments()[i].alias_info();
      if (its != nullptr && its->beforeSets() == alias->beforeSets()) argument_of_[result] = i;
    }
    TORCH_CHECK(argument_of_[result].has_value(), op_.operator_name(), " returns what is none of its arguments");
  }
}

Values Call::arguments_on(c10::Device device, const Change& change) const {
  Values all;
  for (const c10::IValue& each : arguments_) all.push_back(changed(each, device, change));
  for (const std::size_t place : generator_places_) {
    all[place] = generator_ ? c10::IValue{*generator_} : c10::IValue{};
  }
  return all;
}

/// Tensors with the shapes of the results, from the Meta kernel. nullopt if there is none.
std::optional<Values> Call::shapes() const {
  if (!op_.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return std::nullopt;
  Values stack =
      arguments_on(c10::kMeta, [](const at::Tensor& each) { return each.defined() ? like(each, c10::kMeta) : each; });
  try {
    call(op_, stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;  // the kernel calls operators that have none
  }
  ++counts.by_meta;
  return stack;
}

Values Call::shapes_by_zeros() const {
  Values stack = arguments_on(
      c10::kCPU, [](const at::Tensor& each) { return each.defined() ? like(each, c10::kCPU).zero_() : each; });
  // The kernel that is queued later draws from the generator itself.
  for (const std::size_t place : generator_places_) {
    if (generator_) stack[place] = at::detail::createCPUGenerator();
  }
  call(op_, stack);
  ++counts.by_zeros;
  return stack;
}

void Call::make_results() {
  auto known = shapes();
  // An operator resizes an empty tensor that it is given for its result.
  const auto has_shape = [&](const std::optional<std::size_t>& argument) {
    return argument && (!op_.schema().arguments()[*argument].is_out() || arguments_[*argument].toTensor().numel() != 0);
  };
  if (!known && !std::all_of(argument_of_.begin(), argument_of_.end(), has_shape)) known = shapes_by_zeros();
  for (std::size_t i = 0; i < returns(); ++i) {
    const at::Tensor shape = known ? (*known)[i].toTensor() : at::Tensor{};
    if (!makes(i)) {
      results_[i] = arguments_[*argument_of_[i]].toTensor();
      if (shape.defined() && results_[i].sizes() != shape.sizes()) resize(results_[i], shape.sizes(), shape.strides());
    } else if (shape.defined()) {
      results_[i] = like(shape, {kDeviceType, device_});
    }
  }
}

void Call::note(const Queue& queue) const {
  const auto piece = order().begin(queue.number());
  const auto& schema = op_.schema();
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const auto* const alias = schema.arguments()[i].alias_info();
    const bool writes = alias != nullptr && alias->isWrite();
    for_each_tensor(arguments_[i], [&](const at::Tensor& each) { memory().note(piece, each, writes, schema.name()); });
  }
  for (std::size_t i = 0; i < returns(); ++i) {
    if (makes(i)) memory().note(piece, results_[i], true, schema.name());
  }
}

/// The arguments for the CPU's kernel. A number of the host is copied, because the kernel runs later.
Values Call::for_cpu(KernelStorages& storages) const {
  return arguments_on(c10::kCPU, [&](const at::Tensor& each) {
    if (!each.defined()) return each;
    return is_on_device(each) ? for_kernels(each, storages) : each.clone();
  });
}

Values Call::run_later(Queue& queue) {
  KernelStorages storages;
  Values stack = for_cpu(storages);
  std::vector<at::Tensor> into(returns());
  for (std::size_t i = 0; i < returns(); ++i) {
    if (makes(i) && results_[i].defined()) into[i] = for_kernels(results_[i], storages);
  }
  ++counts.queued;
  queue.push([op = op_, arguments = std::move(stack), into = std::move(into)] {
    Values its = arguments;
    call(op, its);
    for (std::size_t i = 0; i < into.size(); ++i) {
      if (into[i].defined()) into[i].copy_(its[i].toTensor());
    }
  });
  return {results_.begin(), results_.end()};
}

Values Call::run_now(Queue& queue) {
  ++counts.synchronous;
  queue.synchronize();
  KernelStorages storages;
  Values stack = for_cpu(storages);
  call(op_, stack);
  for (std::size_t i = 0; i < returns(); ++i) {
    if (!makes(i)) {
      const at::Tensor argument = arguments_[*argument_of_[i]].toTensor();
      const at::Tensor& got = stack[i].toTensor();
      if (argument.sizes() != got.sizes()) resize(argument, got.sizes(), got.strides());
      stack[i] = argument;
    } else if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      stack[i] = stack[i].toTensor().to(c10::Device{kDeviceType, device_});
    }
  }
  return stack;
}

}  // namespace

FallbackCounts fallback_counts() {
  return {counts.queued, counts.by_meta, counts.by_zeros, counts.synchronous};
}

bool is_on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDeviceType;
}

at::Tensor for_kernels(const at::Tensor& tensor, KernelStorages& storages) {
  const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  auto its = storages.find(storage);
  if (its == storages.end()) {
    void* address = const_cast<void*>(storage->data());
    if (memory().device_of(address)) address = Memory::for_kernels(address);
    const c10::Storage of_cpu{c10::Storage::use_byte_size_t{}, storage->nbytes(),
                              c10::DataPtr{address, c10::Device{c10::kCPU}}, nullptr, false};
    its = storages.emplace(storage, of_cpu).first;
  }
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage{its->second}, c10::DispatchKeySet{c10::DispatchKey::CPU}, tensor.dtype());
  c10::TensorImpl& same = *view.unsafeGetTensorImpl();
  same.set_storage_offset(tensor.storage_offset());
  same.set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) same.set_wrapped_number(true);
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

void resize(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  const std::size_t bytes = at::detail::computeStorageNbytes(sizes, strides, tensor.element_size(),
                                                             static_cast<std::size_t>(tensor.storage_offset()));
  if (tensor.numel() != 0 && bytes > tensor.storage().nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(tensor.storage(), bytes);
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto arguments = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  Call called{op, Values(stack->end() - arguments, stack->end())};
  const c10::DeviceGuard guard{c10::Device{kDeviceType, called.device()}};
  Queue& queue = streams().current(called.device());
  if (!called.waits()) called.make_results();
  called.note(queue);
  Values results = called.waits() ? called.run_now(queue) : called.run_later(queue);
  stack->erase(stack->end() - arguments, stack->end());
  for (c10::IValue& each : results) stack->push_back(std::move(each));
}

}  // namespace pharos::simulated
