#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <map>

#include "queues.hpp"

namespace pharos::simulated {

/// Runs an operator that has no kernel for simulated devices: finds the shapes of its results, and queues the CPU's
/// kernel on the current stream. An operator that returns numbers, or results whose shapes depend on values, waits for
/// the device instead, as it does on CUDA. Throws for tensors on different devices, and for views, which need a kernel
/// of their own.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// How often fallback() has been called, and how it found the shapes.
struct FallbackCounts {
  std::uint64_t queued = 0;       ///< calls that did not wait
  std::uint64_t by_meta = 0;      ///< of these: the shapes are from the operator's Meta kernel
  std::uint64_t by_zeros = 0;     ///< of these: the shapes are from a run on zeros
  std::uint64_t synchronous = 0;  ///< calls that waited for the device
};
FallbackCounts fallback_counts();

bool is_on_device(const at::Tensor& tensor);
/// A storage of the CPU for each storage of a device, so that tensors that share memory still do.
using KernelStorages = std::map<const c10::StorageImpl*, c10::Storage>;
/// A tensor of the CPU over the memory of this one, as kernels see it; `tensor` may also be in pinned memory. It owns
/// nothing, like an address that is given to a kernel, so memory that is freed too early is seen to be freed.
at::Tensor for_kernels(const at::Tensor& tensor, KernelStorages& storages);
/// Gives the tensor another shape, and more memory if it needs more.
void resize(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace pharos::simulated
