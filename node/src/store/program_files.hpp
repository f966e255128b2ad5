#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/transfer.hpp>
#include <pharos/wire/message.hpp>

/// Executables of programs whose drivers are at other nodes. They lie in a folder of this node, each named by its build
/// id. An executable comes over a connection that carries nothing else:
///
///   receiver                           sender: a node that has the executable
///   Introduction, with the job's id ->
///                                   <- size of the executable; 0: the job has ended
///   number of bytes that are here   ->
///                                   <- checksum and bytes of a part, repeated until the end
///
/// 1. A file gets its name only when it is complete and has that build id. No other file is run.
/// 2. A file is locked as long as a job has it open, and is not removed meanwhile.
/// All functions here block, except those that say that they do not: ReactorHost and Transfers run them on threads of
/// their own. They may run at the same time.
namespace pharos::node {

/// An executable that this machine can run. A value; closing `executable` also unlocks the file.
struct ProgramHere {
  Fd executable;
  std::string folder;  ///< folder that its workers start in: the program's, or one of this node if that does not exist
};
/// Opens the executable of a program: at its own path if that build is there, or in `folder` if it was received before.
/// kNotFound if this build is not here, also if its file cannot be read; an error of the system if no folder for its
/// workers can be made.
Result<ProgramHere> open_program(const std::string& folder, const wire::RegisterJob& program);

/// Sends an executable; without one, says that its job has ended. Ends silently when the stream breaks or the file
/// cannot be read: the receiver sees that, and asks again.
void send_program(object_store::Stream& to, const Fd& executable);

/// An executable that is being received. Bytes that came before a connection broke are not sent again.
/// Shared by the node and the thread that receives. receive() is used by one thread at a time, arrived() by any. The
/// destructor removes the file unless it is complete.
class ArrivingProgram {
 public:
  explicit ArrivingProgram(const wire::BuildId& build) : build_{build} {}
  ArrivingProgram(ArrivingProgram&&) = delete;
  ~ArrivingProgram();

  /// Receives into this folder, which must be the same each time. After kUnavailable or kCorrupt another attempt may
  /// succeed. kNotFound: the job has ended. kExhausted: there is no room on the disk, though executables that no job
  /// uses were removed. kUnsupported: the executable is too large. kPermissionDenied: no program may be run from the
  /// folder. Otherwise an error of the system. If a file of another build has come, its bytes are dropped (kCorrupt).
  Result<void> receive(object_store::Stream& from, const std::string& folder);
  /// The number of bytes that have come. Does not block.
  std::uint64_t arrived() const { return arrived_.load(std::memory_order_relaxed); }

 private:
  Result<void> begin(const std::string& folder, std::uint64_t size);
  Result<void> receive_rest(object_store::Stream& from);
  Result<void> finish(const std::string& folder);
  void drop();

  const wire::BuildId build_;
  std::string path_;  // path of the incomplete file; empty if there is none
  Fd file_;
  std::uint64_t size_ = 0;
  std::atomic<std::uint64_t> arrived_ = 0;
};

}  // namespace pharos::node
