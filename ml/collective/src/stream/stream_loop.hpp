#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/base/result.hpp>

#include "stream/late_rank_search.hpp"
#include "stream/peer_sockets.hpp"
#include "stream/stream_operation.hpp"
#include "stream/stream_requests.hpp"

namespace pharos::ml {

/// The part of a StreamBackend that runs on its thread: does the operations that the owner has begun, and fails with
/// the other ranks. Owned by StreamBackend, which destroys it when run() has returned; operations that are left are
/// dropped then.
///
/// 1. A rank that begins an operation tells the other ranks of the operation what it is. A rank that has begun a
///    different operation under that number makes all operations fail.
/// 2. Data of an operation is sent only to ranks that have begun it, and is written where it belongs: it is stored
///    nowhere on the way.
/// 3. The first rank that fails tells the other ranks why, and they fail with the same error. A rank whose connection
/// ends or whose messages make no sense has died for this rank (kActorDied). A rank that leaves before it has begun an
/// operation of this rank makes all operations fail with the same code.
class StreamLoop {
 public:
  /// The arguments outlive the loop.
  StreamLoop(const StreamRows& rows, PeerSockets& sockets, StreamRequests& requests);
  StreamLoop(StreamLoop&&) = delete;
  ~StreamLoop();

  /// Called once, by the owner, before the backend's thread begins with run(). Fails with the error of errno if the
  /// sockets cannot be watched.
  Result<void> start();
  /// Returns after StreamRequests::close(), when the other ranks have been told that this one leaves, which takes 200
  /// ms at most. After a failure it tells the other ranks, then the owner, and only waits for close().
  void run();

 private:
  class FromRank;
  /// What another rank has said.
  struct Said {
    std::map<OperationId, Operation> begun{};  // operations that it has begun before this rank
    bool waits_for_answer = false;             // an answer to it has not been sent yet: another kAsk gets no second one
  };

  bool take_requests();
  void begin(const std::shared_ptr<StreamOperation>& operation);
  std::shared_ptr<StreamOperation> find(const OperationId& order) const;
  Result<void> begun_by(std::uint32_t rank, Among among, std::uint64_t number, const Operation& operation);
  void left_by(std::uint32_t rank, std::uint32_t stream);
  void send(StreamOperation& operation, const StreamPlan::Chunk& chunk);
  void end_if_done(StreamOperation& operation);
  std::optional<std::uint32_t> whom_the_owner_waits_for() const;
  void answer(std::uint32_t to);
  void lose(const PeerSockets::Lost& lost);
  /// Makes all operations fail at the end of the thread's present turn. Only the first error counts.
  void give_up(const Error& why);
  void end_failed();

  const StreamRows& rows_;
  PeerSockets& sockets_;
  StreamRequests& requests_;
  LateRankSearch search_;
  std::vector<Said> said_;  // by rank
  std::map<OperationId, std::shared_ptr<StreamOperation>> running_;
  std::vector<std::uint64_t> begun_;  // by row: the number of the last operation that this rank has begun
  std::optional<Error> failing_;      // the error with which all operations are failing, or have failed
};

}  // namespace pharos::ml
