// The kernels of simulated devices, for operators that the fallback cannot run: what makes, moves and views tensors,
// and what reaches a device under another name than the CPU. All other operators take the fallback.

#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fallback.hpp"
#include "memory.hpp"

namespace pharos::simulated {
namespace {

const c10::DispatchKeySet kKey{c10::DispatchKey::PrivateUse1};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard{device.value_or(c10::Device{kDeviceType})};
  return at::detail::empty_generic(size, &memory(), kKey, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard{device.value_or(c10::Device{kDeviceType})};
  return at::detail::empty_strided_generic(size, stride, &memory(), kKey, c10::dtype_or_default(type));
}

/// Like CUDA: a copy between devices comes after all earlier work of both current streams, and before all later work.
void copy_between_devices(const at::Tensor& from, const at::Tensor& to, std::function<void()> copy) {
  Queue& queue = streams().current(from.device().index());
  Queue& other = streams().current(to.device().index());
  const auto before = std::make_shared<Event>();
  const auto after = std::make_shared<Event>();
  before->record(other);
  before->block(queue);
  const auto piece = order().begin(queue.number());
  memory().note(piece, from, false, "copy_");
  memory().note(piece, to, true, "copy_");
  queue.push(std::move(copy));
  after->record(queue);
  after->block(other);
}

// Without `non_blocking`, or with memory that is not pinned, the host waits for a copy to it, and gives a copy of its
// values to a copy from it. With pinned memory the copy reads and writes the host's memory when it runs.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const bool to_host = !is_on_device(to);
  const bool from_host = !is_on_device(from);
  KernelStorages storages;
  const auto later = [&](const at::Tensor& tensor) {
    return is_on_device(tensor) || (non_blocking && tensor.is_pinned());
  };
  const at::Tensor source = later(from) ? for_kernels(from, storages) : from.clone();
  const bool waits = to_host && !later(to);
  const at::Tensor target = waits ? to : for_kernels(to, storages);
  const auto copy = [source, target] { target.copy_(source); };
  if (!to_host && !from_host && from.device() != to.device()) {
    copy_between_devices(from, to, copy);
    return to;
  }
  Queue& queue = streams().current((from_host ? to : from).device().index());
  const auto piece = order().begin(queue.number());
  memory().note(piece, from, false, "copy_");
  memory().note(piece, to, true, "copy_");
  queue.push(copy);
  if (waits) queue.synchronize();
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
  Queue& queue = streams().current(tensor.device().index());
  memory().note(order().begin(queue.number()), tensor, false, "item");
  queue.synchronize();
  KernelStorages storages;
  return for_kernels(tensor, storages).item();
}

const at::Tensor& resize_tensor(const at::Tensor& tensor, at::IntArrayRef size,
                                std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!format || *format == at::MemoryFormat::Contiguous, "resize_() makes a contiguous tensor");
  if (tensor.sizes() != size) resize(tensor, size, c10::contiguous_strides(size));
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  c10::TensorImpl& changed = *tensor.unsafeGetTensorImpl();
  changed.set_storage_keep_dtype(std::move(storage));
  changed.set_storage_offset(offset);
  const bool needs_strides = stride.empty() && !size.empty();
  changed.set_sizes_and_strides(size, needs_strides ? c10::contiguous_strides(size) : c10::DimVector{stride});
  return tensor;
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  return set_storage(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_whole_storage(at::Tensor& tensor, at::Storage storage) {
  const auto count = static_cast<std::int64_t>(storage.nbytes() / tensor.element_size());
  return set_storage(tensor, std::move(storage), 0, {count}, {1});
}

// The CPU's kernel would draw from the CPU's own generator.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (p == 0 || !train.value_or(true)) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool), at::MemoryFormat::Contiguous);
  mask.bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0.0 : 1.0 / (1.0 - p)), mask};
}

const c10::OperatorHandle& operator_named(const char* name) {
  static std::map<std::string, c10::OperatorHandle> known;
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  return known.try_emplace(name, c10::Dispatcher::singleton().findSchemaOrThrow(name, "")).first->second;
}

void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  fallback(operator_named("aten::convolution"), stack);
}

// Its arguments lack the sizes of the bias, which the CPU's operator takes after gradient, input and weight.
void convolution_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  constexpr std::ptrdiff_t kArguments = 10;
  const auto gradient = stack->end() - kArguments;
  const std::vector<std::int64_t> bias_sizes{gradient->toTensor().size(1)};
  stack->insert(gradient + 3, c10::IValue{bias_sizes});
  fallback(operator_named("aten::convolution_backward"), stack);
}

// A device computes a cell of an LSTM in one kernel. The CPU has none: it composes the cell of other operators, as
// here.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell,
                                                         const std::optional<at::Tensor>& input_bias,
                                                         const std::optional<at::Tensor>& hidden_bias) {
  at::Tensor sum = input_gates + hidden_gates;
  for (const auto& bias : {input_bias, hidden_bias}) {
    if (bias && bias->defined()) sum = sum + *bias;
  }
  const auto gates = sum.chunk(4, 1);
  const at::Tensor in = gates[0].sigmoid();
  const at::Tensor forget = gates[1].sigmoid();
  const at::Tensor fresh = gates[2].tanh();
  const at::Tensor out = gates[3].sigmoid();
  const at::Tensor next = forget * cell + in * fresh;
  return {out * next.tanh(), next, at::cat({in, forget, fresh, out}, 1)};
}

/// The gradients of the gates, of the earlier cell and of the bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const std::optional<at::Tensor>& of_hidden,
                                                                  const std::optional<at::Tensor>& of_next,
                                                                  const at::Tensor& cell, const at::Tensor& next,
                                                                  const at::Tensor& activated, bool has_bias) {
  const auto given = [&](const std::optional<at::Tensor>& gradient) {
    return gradient && gradient->defined() ? *gradient : at::zeros_like(cell);
  };
  const auto gates = activated.chunk(4, 1);
  const at::Tensor& in = gates[0];
  const at::Tensor& forget = gates[1];
  const at::Tensor& fresh = gates[2];
  const at::Tensor& out = gates[3];
  const at::Tensor squashed = next.tanh();
  const at::Tensor hidden = given(of_hidden);
  const at::Tensor whole = hidden * out * (1 - squashed * squashed) + given(of_next);
  const at::Tensor of_gates = at::cat({whole * fresh * in * (1 - in), whole * cell * forget * (1 - forget),
                                       whole * in * (1 - fresh * fresh), hidden * squashed * out * (1 - out)},
                                      1);
  return {of_gates, whole * forget, has_bias ? of_gates.sum(0) : at::Tensor{}};
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  memory().recordStream(tensor.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", local_scalar_dense);
  library.impl("resize_", resize_tensor);
  library.impl("set_.source_Storage", set_whole_storage);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
  library.impl("view_as_real", at::native::view_as_real);
  library.impl("view_as_complex", at::native::view_as_complex);
  library.impl("native_dropout", native_dropout);
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  library.impl("record_stream", record_stream);
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

// Under autocast no operator at all works without these.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m){
#define PHAROS_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define PHAROS_FLOAT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
    AT_FORALL_LOWER_PRECISION_FP(PHAROS_LOWER_PRECISION) AT_FORALL_FP32(PHAROS_FLOAT)
#undef PHAROS_LOWER_PRECISION
#undef PHAROS_FLOAT
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace
}  // namespace pharos::simulated
