#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/transfer.hpp>
#include <pharos/wire/message.hpp>

/// Programs of other nodes: their executables, in a folder of this node's, each named by its build id. One comes over a
/// connection that carries nothing else:
///
///   receiver                        sender: the node of the program's driver
///   Introduction: of which job  ->
///                               <-  the executable's size; 0: the job has ended
///   how much of it has come     ->
///                               <-  a part's checksum, and the part; until the end
///
/// 1. A file has its name when it is complete and that build, and not before; nothing else is run.
/// 2. It is locked as long as a job has it open, and is not removed meanwhile.
/// All of this blocks, except what is marked.
namespace pharos::node {

/// A program as this machine can run it.
struct ProgramHere {
  Fd executable;
  std::string folder;  ///< where it starts: its own, or one of this node's where there is no such
};
/// At its path, or as it was received in `folder` before. kNotFound: this build is not here.
Result<ProgramHere> open_program(const std::string& folder, const wire::RegisterJob& program);

/// None: its job has ended.
void send_program(object_store::Stream& to, const Fd& executable);

/// An executable that is being received. What came before a connection broke is not sent again.
/// Used by one thread after the other; arrived() by any. Its end removes what there is of it, unless it is complete.
class ArrivingProgram {
 public:
  explicit ArrivingProgram(const wire::BuildId& build) : build_{build} {}
  ArrivingProgram(ArrivingProgram&&) = delete;
  ~ArrivingProgram();

  /// In this folder, always the same. kUnavailable and kCorrupt: another attempt may succeed.
  Result<void> receive(object_store::Stream& from, const std::string& folder);
  /// Bytes. Does not block.
  std::uint64_t arrived() const { return arrived_.load(std::memory_order_relaxed); }

 private:
  Result<void> begin(const std::string& folder, std::uint64_t size);
  Result<void> receive_rest(object_store::Stream& from);
  Result<void> finish(const std::string& folder);
  void drop();

  const wire::BuildId build_;
  std::string path_;  // until it has its name
  Fd file_;
  std::uint64_t size_ = 0;
  std::atomic<std::uint64_t> arrived_ = 0;
};

}  // namespace pharos::node
