#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/ml/device.hpp>

#include "libraries.hpp"

namespace pharos::ml {
namespace {

constexpr const char* kCudaLibrary = "libtorch_cuda.so";

[[noreturn]] void refuse(std::string what, std::string remedy) {
  throw_error(Error{ErrorCode::kFailedPrecondition, std::move(what), std::move(remedy)});
}

void load_cuda() {
  const std::filesystem::path library = folder_of(reinterpret_cast<const void*>(&at::globalContext)) / kCudaLibrary;
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* const why = ::dlerror();
    refuse("libtorch's CUDA library cannot be loaded: " + std::string{why},
           "It comes with PyTorch's wheel for CUDA 13; LD_LIBRARY_PATH names the folders of CUDA's own libraries.");
  }
#ifdef PHAROS_CUDA_LIBRARY
  // A program that links Pharos as archives has it where it is needed.
  if (is_beside(PHAROS_CUDA_LIBRARY)) load_beside(PHAROS_CUDA_LIBRARY, "GPUs", "CUDA's runtime");
#endif
}

/// The kind of devices that are this process's GPUs: CUDA's, unless the program has brought libtorch another kind.
at::DeviceType kind_of_gpus() {
  if (at::isPrivateUse1HooksRegistered()) return at::kPrivateUse1;
  static const bool is_loaded = (load_cuda(), true);
  static_cast<void>(is_loaded);
  if (!at::globalContext().hasCUDA()) {
    refuse("libtorch finds no CUDA in this process",
           "Run it where nvidia-smi shows a GPU, and call gpu() before anything else asks libtorch for CUDA.");
  }
  return at::kCUDA;
}

detail::OnGpu load_on_gpu() {
  if (const auto make = detail::registered_on_gpu()) return make;
#ifdef PHAROS_NCCL_LIBRARY
  load_beside(PHAROS_NCCL_LIBRARY, "ranks on GPUs", "NCCL and CUDA's runtime");
  const auto make = detail::registered_on_gpu();
  if (make == nullptr) {
    refuse(std::string{PHAROS_NCCL_LIBRARY} + " uses another copy of libpharos.so than this program",
           "Link the program with libpharos.so, or with all of Pharos' libraries as archives.");
  }
  return make;
#else
  refuse("this build of Pharos has no collectives between GPUs",
         "Build it where CUDA and NCCL are, with PHAROS_NCCL=ON.");
#endif
}

void* current_stream(int index) {
  const at::Device device{kind_of_gpus(), static_cast<at::DeviceIndex>(index)};
  const c10::impl::VirtualGuardImpl guard{device.type()};
  return guard.getStreamNativeHandle(guard.getStream(device));
}

}  // namespace

at::Device gpu(int index) {
  const at::DeviceType kind = kind_of_gpus();
  const at::DeviceIndex count = at::globalContext().getAcceleratorHooksInterface(kind).deviceCount();
  if (index < 0 || index >= count) {
    refuse("there is no GPU " + std::to_string(index) + ": this process sees " + std::to_string(count),
           "Reserve GPUs with ActorOptions::gpus, or look at CUDA_VISIBLE_DEVICES.");
  }
  return {kind, static_cast<at::DeviceIndex>(index)};
}

at::Device own_device() {
  return context().gpus.empty() ? at::Device{at::kCPU} : gpu(0);
}

std::uint64_t memory_of(at::Device gpu) {
  return at::getDeviceAllocator(gpu.type())->getMemoryInfo(gpu.index()).second;
}

Error no_room_on(at::Device gpu, std::string_view said) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto text = [](std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  auto* const allocator = at::getDeviceAllocator(gpu.type());
  const auto [free, all] = allocator->getMemoryInfo(gpu.index());
  const auto stats = allocator->getDeviceStats(gpu.index());
  const auto own = static_cast<std::uint64_t>(stats.reserved_bytes[kAll].current);
  const auto tensors = static_cast<std::uint64_t>(stats.allocated_bytes[kAll].current);
  const std::uint64_t others = all - free - std::min(own, all - free);
  return {ErrorCode::kExhausted,
          "GPU " + std::to_string(gpu.index()) +
              " has no room for a tensor. libtorch says: " + std::string{said.substr(0, said.find('\n'))} +
              (said.ends_with('.') ? " " : ". ") + "Of the GPU's " + text(all) + " this process has now taken " +
              text(own) + ", " + text(tensors) + " of that for tensors, and others " + text(others),
          "Take smaller batches (FitOptions::batch) and more of them for a step (accumulate), bfloat16, or more ranks "
          "and a strategy that divides the model. `pharos status` shows who uses the GPU."};
}

Communicator communicator_on(at::Device device, Communicator& ranks) {
  if (device.is_cpu()) return ranks;
  detail::register_stream_of_work(&current_stream);
  return detail::over_gpu(ranks, device.index(), load_on_gpu());
}

}  // namespace pharos::ml
