#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/base/export.hpp>

namespace pharos::object_store {

/// Where an object is, for code that tells a device of its memory. A device uses the pages that it was told of, even if
/// the node has taken them from the object store since, and has given other pages to their addresses. So the device is
/// to be told anew when `releases` has changed.
struct ObjectMemory {
  std::span<const std::byte> bytes;  ///< begins with a page
  std::uint64_t releases = 0;        ///< ReleaseCounters::of() these bytes
};

/// Returns where the object is that contains these bytes; nullopt if they are in no object in which this process has a
/// share. A View must keep the object in memory meanwhile. Any thread.
PHAROS_API std::optional<ObjectMemory> object_memory(std::span<const std::byte> bytes);

/// Sets a function that is called with the memory of a whole store before that memory is unmapped. It replaces the
/// function that was set before.
PHAROS_API void before_unmapping(void (*call)(std::span<const std::byte> memory));

}  // namespace pharos::object_store
