#pragma once

#include <filesystem>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// For a module whose parameters alone are more than a rank's memory: while this is there, large tensors lie in files
/// of `folder`, which nobody else sees and which are gone when the tensors are. The kernel keeps of them what there is
/// room for. Once the module is divided, each rank has its part in memory:
///
///   std::optional<ml::DiskBacked> disk{"/var/tmp"};
///   Net net;  // made as usual, at the disk's speed where it does not fit
///   ml::Sharded sharded = ml::fully_shard(*net, ranks);
///   disk.reset();
///
/// One at a time in a process, whose tensors it is for, whatever thread makes them. Making a tensor throws Exhausted
/// when the disk is full. Tensors may outlive it.
class PHAROS_API DiskBacked {
 public:
  /// Throws FailedPrecondition where no files can be made, or they are memory themselves (tmpfs).
  explicit DiskBacked(const std::filesystem::path& folder);
  ~DiskBacked();
  DiskBacked(const DiskBacked&) = delete;
  DiskBacked& operator=(const DiskBacked&) = delete;
};

}  // namespace pharos::ml
