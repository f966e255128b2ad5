#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// Keeps memory of the host registered with the driver of the GPUs. Held while copies from that memory are under way.
using Pin = std::shared_ptr<const void>;

/// Lets GPUs copy from an object of the object store as they do from pinned memory: at full speed, and while the host
/// goes on. tensor_of(array, device) uses this; so does fit(). The first call for an object registers its memory with
/// the driver, which takes a while. Further calls find it registered, also for a later object in the same memory, such
/// as the next batch of the actor that made this one. When other memory is registered, memory that was not used for ten
/// seconds is let go, and so is what is beyond 4 GiB. When the Runtime ends, all of it is let go.
///
/// `bytes` may be a part of the object. What keeps them readable, such as an Array, must live as long as the Pin.
/// Returns null if the bytes are in no object of the store, if the process has not loaded libpharos_cuda.so (gpu() does
/// that), or if the driver refuses: copies then work all the same, slower. Any thread.
PHAROS_API Pin pin_stored(std::span<const std::byte> bytes);

namespace detail {

/// How memory of the host is registered with the driver of the GPUs. libpharos_cuda.so calls register_host_memory()
/// when it is loaded.
struct HostMemory {
  /// Returns whether the driver has taken the memory, which consists of whole pages.
  bool (*pin)(std::span<const std::byte> memory) = nullptr;
  /// No copies from the memory are under way.
  void (*unpin)(std::span<const std::byte> memory) = nullptr;
};
PHAROS_API void register_host_memory(HostMemory functions);

}  // namespace detail

}  // namespace pharos::ml
