#pragma once

#include <filesystem>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// For a module whose parameters alone are larger than a rank's memory: while a DiskBacked lives, new CPU tensors of
/// 1 MiB or more lie in files of `folder`. The files have no names, and vanish with their tensors. The kernel keeps in
/// memory as much of them as there is room for. Once the module is divided, each rank has its part in memory:
///
///   std::optional<ml::DiskBacked> disk{"/var/tmp"};
///   Net net;  // made as usual, at the disk's speed where it does not fit
///   ml::Sharded sharded = ml::fully_shard(*net, ranks);
///   disk.reset();
///
/// It acts on the tensors of all threads. A process has one DiskBacked at a time. While a thread makes or destroys it,
/// no other thread may make tensors. Making a tensor throws Exhausted when the disk is full, and FailedPrecondition
/// when the folder takes no more files. The owner is the code that makes the module, such as fit(). The destructor only
/// ends the storing of new tensors; tensors may outlive it.
class PHAROS_API DiskBacked {
 public:
  /// Throws FailedPrecondition if the folder cannot take files, if its file system is memory itself (tmpfs), or if the
  /// process has another DiskBacked.
  explicit DiskBacked(const std::filesystem::path& folder);
  ~DiskBacked();
  DiskBacked(const DiskBacked&) = delete;
  DiskBacked& operator=(const DiskBacked&) = delete;
};

}  // namespace pharos::ml
