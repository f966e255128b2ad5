#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/net/handshake.hpp>

#include "scratch_buffer.hpp"
#include "stream/aligned_memory.hpp"
#include "stream/connections.hpp"
#include "stream/peer_sockets.hpp"
#include "stream/stream_loop.hpp"
#include "stream/stream_operation.hpp"
#include "stream/stream_requests.hpp"

namespace pharos::ml {

/// Options for HierarchicalBackend, which does operations in steps. A value.
struct StreamSteps {
  std::vector<std::uint32_t> lane{};  ///< The ranks of this rank's lane, which have operations of their own.
  std::function<void()> heard{};      ///< Called on another thread when an operation has ended or all have failed.
};

/// Ranks that reach each other by TCP. The backend's own thread (StreamLoop) sends, receives and reduces; the owner
/// (Core or HierarchicalBackend) uses the backend on one thread at a time. Operations go on without calls of the owner.
/// The destructor tells the other ranks that this one leaves, gives that 200 ms at most, and ends the thread;
/// operations that are under way are dropped, and their memory is not used afterwards.
class StreamBackend final : public detail::Backend {
 public:
  using WhoIsMissing = StreamRequests::WhoIsMissing;

  /// Returns when all ranks are connected; waits at most for the options' timeout. `addresses` has the address of each
  /// rank's listening socket, and `listener` is the socket of this rank. Only the ranks know the key. Fails as
  /// connect_ranks() does, and with the error of errno. The arguments are needed during the call only.
  static Result<std::unique_ptr<StreamBackend>> make(const Fd& listener, const std::vector<std::string>& addresses,
                                                     const net::Key& key, std::uint32_t rank,
                                                     const CommunicatorOptions& options, const StreamSteps& steps = {});
  ~StreamBackend() override;

  std::uint32_t rank() const override { return rows_.rank(); }
  std::uint32_t ranks() const override { return rows_.ranks(); }
  bool shares_memory() const override { return false; }
  std::uint64_t bytes_sent() const override { return sockets_.bytes_sent(); }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override;
  Result<bool> advance(detail::Work& work) override;
  /// When the time is over, finds the late rank, which takes about 0.7 seconds more, and fails with kDeadlineExceeded.
  Result<void> finish(detail::Work& work, Duration time) override;
  /// kExhausted on all ranks if one of them has no memory.
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override { memory_.free(memory); }
  void fail(const Error& why) override { requests_.fail(why); }
  Result<void> check() override;
  std::optional<Error> failure() override { return requests_.failure(); }

  // The rest is for HierarchicalBackend, which does operations in steps.

  /// Begins a step. In a step of a lane, ranks and roots are places in the lane.
  std::shared_ptr<detail::Work> begin(Among among, const detail::Step& step, const detail::Places& places);
  /// Says what this rank waits for from now on, in case other ranks ask: an operation of this backend, or something
  /// else, where `who` returns the rank that it waits for. `who` is called on the backend's thread until
  /// waits_no_more().
  void waits(const detail::Work& work);
  void waits(WhoIsMissing who) { requests_.waits_for(std::move(who)); }
  void waits_no_more() { requests_.waits_no_more(); }
  /// This rank has waited too long for `what`, such as "barrier, operation 7,": finds the rank that holds the others
  /// up, and soon makes all operations fail with its number.
  void blame(const std::string& what) { requests_.say_overdue(what); }

 private:
  StreamBackend(std::uint32_t rank, Connections connections, const CommunicatorOptions& options,
                const StreamSteps& steps);
  Result<void> start();
  std::shared_ptr<StreamOperation> make_operation(Among among, const detail::Step& step, const detail::Places& places);

  const StreamRows rows_;
  const bool shortens_;
  std::vector<std::uint64_t> last_;  // by row: the number of the last operation that was begun
  AlignedMemory memory_;
  ScratchBuffers buffers_;  // of operations, and so destroyed after requests_ and loop_
  PeerSockets sockets_;
  StreamRequests requests_;
  StreamLoop loop_;
  std::thread thread_;  // the last member, because the thread uses the others
};

}  // namespace pharos::ml
