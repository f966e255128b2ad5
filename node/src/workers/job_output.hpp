#pragma once

#include <cstddef>
#include <utility>

#include <pharos/async/unique_function.hpp>
#include <pharos/wire/message.hpp>

#include "node/to_head.hpp"
#include "workers/job.hpp"

namespace pharos::node {

/// The output of workers on its way to the driver: here, or by way of the head. Output is taken only as fast as it is
/// shown, so that it waits in the pipes of the workers.
/// Owned by Node; on its strand. Reports no failure: output by way of the head is lost if the connection ends, or if
/// the head or the driver's node has too much of it.
class JobOutput {
 public:
  static constexpr std::size_t kQueuedMax = std::size_t{1} << 20;
  static constexpr std::size_t kFarUnshownMax = std::size_t{16} << 20;

  /// Returns how many bytes wait to be sent to the head.
  using Queued = async::UniqueFunction<std::size_t()>;

  JobOutput(ToHead& head, Queued queued_to_head) : head_{head}, queued_to_head_{std::move(queued_to_head)} {}

  /// Returns whether output of the job can be taken now: while less than kQueuedMax waits.
  bool takes(const Job& job);
  /// Sends output, also if takes() is false.
  void send(Job& job, wire::Output output);
  /// Takes output of a worker at another node, and drops it if the driver is not here or has kFarUnshownMax to show. If
  /// a driver shows nothing, it misses lines of other machines; otherwise it would block the workers there.
  void send_far(Job& job, const wire::Output& output);

 private:
  ToHead& head_;
  Queued queued_to_head_;
};

}  // namespace pharos::node
