#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/transfer.hpp>
#include <pharos/wire/message.hpp>

/// The way of a program's files to a node that lacks them. They come over a connection that carries nothing else:
///
///   receiver                                         sender: a node that has the files
///   Introduction, with the job's id               ->
///   content of a file, bytes of it that are here  ->                     repeated for each file
///                                                 <- size of the file, or that there is no such file
///                                                 <- checksum and bytes of a part, repeated until the end
///
/// A file gets its name only when it is complete and has that content. No other file is used.
/// All functions here block, except those that say that they do not: Transfers runs them on threads of its own. They
/// may run at the same time.
namespace pharos::node {

/// Sends the files of a program that the other node asks for, until that closes the connection; without an executable,
/// says that there are none, because the job has ended. Ends silently when the stream breaks or a file cannot be read:
/// the receiver sees that, and asks again. Takes files from their own paths, or from `folder`.
void send_program(object_store::Stream& to, const Fd& executable, const wire::RegisterJob& program,
                  const std::string& folder);

/// Files of a program that are being received. Bytes that came before a connection broke are not sent again.
/// Shared by the node and the thread that receives. receive() is used by one thread at a time, arrived() by any. The
/// destructor removes the file that is not complete.
class ArrivingProgram {
 public:
  /// `missing` are some of the program's files, as in ProgramHere.
  ArrivingProgram(const wire::RegisterJob& program, std::span<const wire::BuildId> missing);
  ArrivingProgram(ArrivingProgram&&) = delete;
  ~ArrivingProgram();

  /// Receives into this folder, which must be the same each time. After kUnavailable or kCorrupt another attempt may
  /// succeed. kNotFound: the other node does not have a file, or the job has ended. kExhausted: there is no room on the
  /// disk, though files that no job uses were removed. kUnsupported: the program is too large. kPermissionDenied: no
  /// program may be run from the folder. Otherwise an error of the system. If a file of another content has come, its
  /// bytes are dropped (kCorrupt).
  Result<void> receive(object_store::Stream& from, const std::string& folder);
  /// The number of bytes that have come. Does not block.
  std::uint64_t arrived() const { return arrived_.load(std::memory_order_relaxed); }

 private:
  struct Wanted {
    wire::BuildId content{};
    std::string path{};                   // for messages
    std::optional<std::uint64_t> size{};  // of the executable it is not known before
  };

  Result<void> receive_one(object_store::Stream& from, const std::string& folder, const Wanted& wanted);
  Result<void> begin(const std::string& folder, const Wanted& wanted, std::uint64_t size);
  Result<void> receive_rest(object_store::Stream& from);
  Result<void> finish(const std::string& folder, const Wanted& wanted);
  std::uint64_t bytes_to_come(std::uint64_t first) const;
  void drop();

  std::vector<Wanted> wanted_;
  std::size_t complete_ = 0;  // files
  std::string path_;          // path of the incomplete file; empty if there is none
  Fd file_;
  std::uint64_t size_ = 0;
  std::uint64_t here_ = 0;  // bytes of the incomplete file
  std::atomic<std::uint64_t> arrived_ = 0;
};

}  // namespace pharos::node
