#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/net/handshake.hpp>

#include "shared/room.hpp"
#include "stream/connections.hpp"
#include "stream/pace.hpp"
#include "stream/stream.hpp"
#include "stream/stream_plan.hpp"

namespace pharos::ml {

/// Options for HierarchicalBackend, which does operations in steps.
struct StreamSteps {
  std::vector<std::uint32_t> lane{};  ///< The ranks of this rank's lane, which have operations of their own.
  std::function<void()> heard{};      ///< Called on another thread when an operation has ended or all have failed.
};

/// Ranks that reach each other by TCP. The backend's own thread sends, receives and reduces; the owner uses the backend
/// on one thread at a time. The destructor tells the other ranks that this one leaves, gives that 200 ms at most, and
/// ends the thread.
///
/// 1. A rank that begins an operation tells the other ranks of the operation what it is. A rank that has begun a
///    different operation under that number makes all operations fail.
/// 2. Data of an operation is sent only to ranks that have begun it, and is written where it belongs: it is stored
///    nowhere on the way.
/// 3. The first rank that fails tells the other ranks why, and they fail with the same error.
class StreamBackend final : public detail::Backend {
 public:
  static constexpr std::uint32_t kStreams = 2;  // connections between two ranks

  /// Returns when all ranks are connected. `addresses` has the address of each rank's listening socket, and `listener`
  /// is the socket of this rank. Only the ranks know the key.
  static Result<std::unique_ptr<StreamBackend>> make(const Fd& listener, const std::vector<std::string>& addresses,
                                                     const net::Key& key, std::uint32_t rank,
                                                     const CommunicatorOptions& options, const StreamSteps& steps = {});
  ~StreamBackend() override;

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  bool shares_memory() const override { return false; }
  std::uint64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override {
    return begin(operation.kind == Operation::Kind::kMessage ? Among::kTwo : Among::kAll, {operation, operation},
                 places);
  }
  Result<bool> advance(detail::Work& work) override;
  Result<void> finish(detail::Work& work, Duration time) override;
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override;
  void fail(const Error& why) override;
  Result<void> check() override;

  /// Begins a step. In a step of a lane, ranks and roots are places in the lane.
  std::shared_ptr<detail::Work> begin(Among among, const detail::Step& step, const detail::Places& places);
  using WhoIsMissing = std::function<std::optional<std::uint32_t>()>;
  /// Says what this rank waits for from now on, in case other ranks ask: an operation of this backend, or something
  /// else, where `who` returns the rank that it waits for. `who` is called on the backend's thread until
  /// waits_no_more().
  void waits(const detail::Work& work);
  void waits(WhoIsMissing who);
  void waits_no_more();
  /// This rank has waited too long for `what`, such as "barrier, operation 7,": finds the rank that holds the others
  /// up, and soon makes all operations fail with its number.
  void blame(const std::string& what);
  std::optional<Error> failure();

 private:
  /// A sequence of operations that are numbered together: those of all ranks (row 0), those of the lane, or the
  /// messages between two ranks in one direction.
  using Row = std::uint32_t;
  /// Ranks that do operations together: all ranks, or those of the lane.
  struct Team {
    std::vector<std::uint32_t> ranks;
    std::uint32_t own = 0;  // the place of this rank

    std::optional<std::uint32_t> place_of(std::uint32_t rank) const;
  };
  /// Identifies an operation.
  struct Order {
    Row row = 0;
    std::uint64_t number = 0;  // in its row, from 1
    auto operator<=>(const Order&) const = default;
  };
  struct Peer;
  struct Running;
  class FromRank;

  StreamBackend(std::uint32_t rank, Connections connections, const CommunicatorOptions& options,
                const StreamSteps& steps);
  Result<void> start();
  std::shared_ptr<Running> make_running(Among among, const detail::Step& step, const detail::Places& places);

  // On the backend's thread.
  void run();
  bool take_requests();
  void begin_here(const std::shared_ptr<Running>& running);
  void write_all();
  void serve_sockets();
  static Row row_to(std::uint32_t rank) { return 1 + 2 * rank; }
  static Row row_from(std::uint32_t rank) { return 2 + 2 * rank; }
  Row lane_row() const { return 1 + 2 * ranks_; }
  std::optional<Row> row_of(Among among, const Operation& operation, std::uint32_t other) const;
  Result<void> begun_by(std::uint32_t rank, Among among, std::uint64_t number, const Operation& operation);
  std::shared_ptr<Running> find(const Order& order) const;
  void left_by(std::uint32_t rank, std::uint32_t stream);
  void send(Running& running, const StreamPlan::Chunk& chunk);
  void end_if_done(Running& running);
  void lose(std::uint32_t rank, const Error& why);
  std::optional<std::uint32_t> missing_here();
  void inquire();
  void suspect(std::uint32_t rank);
  void answer(std::uint32_t to);
  void answered(std::uint32_t by, std::uint32_t tag);
  void conclude();
  /// Makes all operations fail at the end of the thread's present turn. Only the first error counts.
  void give_up(const Error& why);
  void end_failed();
  void tell();
  void say_farewell();
  template <class F>
  void for_streams(const F& f);

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const bool shortens_;
  const std::function<void()> heard_;
  Team all_;
  Team lane_;
  Rooms rooms_;  // buffers of operations, and so destroyed after running_ and the thread
  const Fd wake_;
  const Fd events_;
  std::atomic<std::uint64_t> bytes_sent_{0};

  std::mutex mutex_;
  // Under the mutex: what the owner asks for.
  std::deque<std::shared_ptr<Running>> new_;
  std::optional<Error> asked_to_fail_;
  struct Waiting {
    std::optional<Order> order;  // the operation it waits for; without it, `who` names the missing rank
    WhoIsMissing who;
  };
  std::optional<Waiting> waiting_;
  std::optional<std::string> overdue_;  // the operation that the owner has waited for too long
  bool closes_ = false;
  // Under the mutex: what the owner is told.
  std::condition_variable changed_;
  std::optional<Error> failed_;

  // Used by the backend's thread only.
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this rank
  Pace pace_;
  std::uint32_t first_to_write_ = 0;
  std::map<Order, std::shared_ptr<Running>> running_;
  std::vector<std::uint64_t> begun_;  // by row: the number of the last operation that this rank has begun
  std::optional<Error> failing_;      // the error with which all operations are failing, or have failed
  /// The search for the rank that holds the others up. The rank that this one waits for is asked which rank it waits
  /// for, and so on, until a rank waits for nobody or does not answer: that rank is named. This is done twice, and the
  /// result of the last time counts.
  struct Inquiry {
    std::string what;
    std::vector<std::uint32_t> asked{};  // the chain of ranks so far
    TimePoint until{};
    int times = 0;
  };
  std::optional<Inquiry> inquiry_;

  // Used by the owner only.
  std::vector<std::uint64_t> last_;  // by row: the number of the last operation that was begun
  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], FreeAligned>;
  std::map<std::byte*, Memory> memory_;

  std::thread thread_;
};

}  // namespace pharos::ml
