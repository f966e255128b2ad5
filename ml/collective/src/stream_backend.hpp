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
#include <pharos/ml/communicator.hpp>
#include <pharos/net/handshake.hpp>

#include "backend.hpp"
#include "connections.hpp"
#include "pace.hpp"
#include "room.hpp"
#include "stream.hpp"
#include "stream_plan.hpp"

namespace pharos::ml {

/// For who does operations in steps.
struct StreamSteps {
  std::vector<std::uint32_t> lane{};  ///< ranks, with this one, that have operations of their own
  std::function<void()> heard{};      ///< on another thread: an operation has ended, or all of them have failed
};

/// Ranks that reach each other by TCP. A thread of its own sends, receives and reduces.
///
/// 1. A rank that begins an operation tells those that it is done with what it is. Who has begun another one under that
///    number makes all of them fail.
/// 2. Data of an operation goes to a rank that has begun it, and there to where it belongs: nothing is kept on the way.
/// 3. Who fails first tells the others why, and they fail with that.
class StreamBackend final : public detail::Backend {
 public:
  static constexpr std::uint32_t kStreams = 2;  // between two ranks

  /// Comes back when all ranks have found each other. `addresses`: where they listen, by rank, each at a socket as
  /// `listener` is. Nobody else knows the key.
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

  /// Of a lane, ranks and roots are places in it.
  std::shared_ptr<detail::Work> begin(Among among, const detail::Step& step, const detail::Places& places);
  using WhoIsMissing = std::function<std::optional<std::uint32_t>()>;
  /// What this rank waits for from now on: an operation of here, or something of which that knows, on any thread.
  void waits(const detail::Work& work);
  void waits(WhoIsMissing who);
  void waits_no_more();
  /// It has waited too long: all fails soon, with the rank that holds all up. `what`: "barrier, operation 7,".
  void blame(const std::string& what);
  std::optional<Error> failure();

 private:
  /// Who counts an operation: all ranks together, or two of them, in one of their directions, for messages.
  using Row = std::uint32_t;
  /// These ranks, of which this one has a place.
  struct Team {
    std::vector<std::uint32_t> ranks;
    std::uint32_t own = 0;

    std::optional<std::uint32_t> place_of(std::uint32_t rank) const;
  };
  struct Order {
    Row row = 0;
    std::uint64_t number = 0;  // from 1
    auto operator<=>(const Order&) const = default;
  };
  struct Peer;
  struct Running;
  class FromRank;

  StreamBackend(std::uint32_t rank, Connections connections, const CommunicatorOptions& options,
                const StreamSteps& steps);
  Result<void> start();
  std::shared_ptr<Running> make_running(Among among, const detail::Step& step, const detail::Places& places);

  // Its own thread.
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
  /// Soon. Only the first reason counts.
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
  Rooms rooms_;  // of operations, which all end before this does
  const Fd wake_;
  const Fd events_;
  std::atomic<std::uint64_t> bytes_sent_{0};

  std::mutex mutex_;
  // What the owner asks for.
  std::deque<std::shared_ptr<Running>> new_;
  std::optional<Error> asked_to_fail_;
  struct Waiting {
    std::optional<Order> order;  // or, without one, what `who` knows of
    WhoIsMissing who;
  };
  std::optional<Waiting> waiting_;
  std::optional<std::string> overdue_;  // what
  bool closes_ = false;
  // What it is told.
  std::condition_variable changed_;
  std::optional<Error> failed_;

  // Of its own thread.
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; none for this one
  Pace pace_;
  std::uint32_t first_to_write_ = 0;
  std::map<Order, std::shared_ptr<Running>> running_;
  std::vector<std::uint64_t> begun_;  // by row: the last one here
  std::optional<Error> failing_;      // why all of it is to end, or has
  /// Who holds all up: whoever is waited for is asked for whom it waits, and so on, until one waits for nobody, or says
  /// nothing. The last time counts.
  struct Inquiry {
    std::string what;
    std::vector<std::uint32_t> asked{};
    TimePoint until{};
    int times = 0;
  };
  std::optional<Inquiry> inquiry_;

  // Of the owner's.
  std::vector<std::uint64_t> last_;  // by row
  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], FreeAligned>;
  std::map<std::byte*, Memory> memory_;

  std::thread thread_;
};

}  // namespace pharos::ml
