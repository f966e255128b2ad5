#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/base/id.hpp>
#include <pharos/net/link.hpp>
#include <pharos/object_store/lessee.hpp>
#include <pharos/wire/error_codec.hpp>
#include <pharos/wire/frame.hpp>

#include "flush_queue.hpp"
#include "large_values.hpp"
#include "result_cell.hpp"

namespace pharos::detail {
class Caller;
}

namespace pharos::actors {

/// One caller's calls to one worker, in their order: numbers them, keeps who waits for which reply, and holds calls
/// back until the worker and their own arguments are there. The same for an actor and for a leased task worker. Owned
/// by the caller's actor or task pool, and by calls that are being sent. Threads: any. Failure: when the connection
/// ends, calls wait until lose() or cut() says what becomes of them. Calls that were never sent are "not started", the
/// others "unknown". Bounds: the call after `kInFlightMax` without a reply fails with kOverloaded. While more than
/// Link::kQueuedMax bytes wait for the worker to read them, the link is full, and each caller says what becomes of a
/// call then (WhenFull).
class CallLink final : public net::Link::Handler, public Flushable, public std::enable_shared_from_this<CallLink> {
 public:
  static constexpr std::size_t kInFlightMax = std::size_t{1} << 24;
  /// So much a worker's calls may hold back beyond Link::kQueuedMax.
  static constexpr std::size_t kHeldBytesMax = std::size_t{1} << 30;
  /// How much may be under way before a call fails.
  struct Bounds {
    std::size_t in_flight = kInFlightMax;
    std::size_t held_bytes = kHeldBytesMax;
  };

  /// What becomes of a call that finds the link full.
  enum class WhenFull : std::uint8_t {
    /// The calling thread waits for room, no longer than the call's deadline. In a worker it waits only as long as the
    /// other end reads: if that has read nothing for 100 ms, it may be waiting for this worker, and the call is held
    /// back. With kHeldBytesMax held back the thread waits again, and after 30 s without a read the call fails with
    /// kOverloaded.
    kWait,
    kHold,    ///< It is held back until there is room.
    kRefuse,  ///< It is not taken; nor where as much is held back, for want of a connection or of arguments.
  };
  /// What kind of process calls.
  enum class Side : std::uint8_t { kProgram, kWorker };

  /// Who wants to know how it goes. Called without locks, in the order of events.
  class Observer {
   public:
    virtual ~Observer() = default;
    /// So many replies came, in so much time of execution; `in_flight` are left.
    virtual void on_replies(CallLink& link, std::size_t replies, Duration execution, std::size_t in_flight) = 0;
    /// The worker has not begun these, and does not want to: its running task waits for something, or takes long; or it
    /// takes nothing more, because it is to end.
    virtual void on_returned(CallLink& link, std::vector<detail::CellHandle> cells, bool takes_more) = 0;
    /// Its result lies in the object store.
    virtual void on_large_result(detail::CellHandle cell, std::shared_ptr<object_store::Object> object,
                                 detail::ActorHandles actors) {
      cell->set_object(std::move(object), std::move(actors));
    }
    /// The call has run, and its result was lost on its way.
    virtual void on_result_lost(detail::CellHandle cell, const Error& why) { cell->set_error(why); }
    /// It was not begun, because an argument was lost.
    virtual void on_argument_lost(detail::CellHandle cell, const Error& why) { cell->set_error(why); }
    /// The connection has ended; calls wait for lose() or cut().
    virtual void on_disconnected(CallLink& link) = 0;
  };

  /// The first number that no call of a caller has: a callee on another machine knows calls by their numbers, also from
  /// a link that it had before.
  using Numbers = std::shared_ptr<std::atomic<std::uint64_t>>;

  CallLink(CallerId caller, Numbers numbers, std::shared_ptr<const Clock> clock,
           std::shared_ptr<FlushQueue> flush_queue, std::shared_ptr<LargeValues> large_values,
           std::weak_ptr<detail::Caller> receiver, std::weak_ptr<Observer> observer, Side side)
      : caller_{caller},
        side_{side},
        numbers_{std::move(numbers)},
        clock_{std::move(clock)},
        flush_queue_{std::move(flush_queue)},
        large_values_{std::move(large_values)},
        receiver_{std::move(receiver)},
        observer_{std::move(observer)},
        first_unanswered_{numbers_->load()} {}

  /// Sets lower bounds, which a test can reach; is called before the first send().
  void set_bounds(const Bounds& bounds) { bounds_ = bounds; }

  /// The other end of a connection.
  struct Callee {
    ActorId actor;  ///< none: it runs tasks
    std::uint32_t incarnation = 0;
    std::int32_t max_retries = 0;  ///< how often a call that was on its way is sent again
    bool remote = false;           ///< on another machine: does not reach this one's object store
    /// It may be reached again after its connection has ended: it knows which calls it has seen, and keeps its replies
    /// until they are acknowledged.
    bool comes_back() const { return remote && actor; }
  };
  /// The worker is there: starts the link, and what was held back goes out. After an earlier connection has ended,
  /// calls that were on their way go out again before all others: to the same incarnation of a remote actor all of
  /// them, under their numbers; to another one those that may; what may not fails with `why_ended`.
  void connect(std::shared_ptr<net::Link> link, const Callee& callee, const Error& why_ended);

  /// Sends the cell's call; or keeps its place, and those behind it, until advance(), if its arguments are not
  /// complete. A link that is lost fails it at once. False, and the cell is pending still: kRefuse, and the link is
  /// full or has kInFlightMax calls in flight.
  bool send(detail::CellHandle cell, WhenFull when_full);
  /// send() with kRefuse would return false now.
  bool refuses() const;
  /// Its other end has begun none of these, and begins nothing more: they go before all others to the next one.
  void hold_for_next(std::vector<detail::CellHandle> returned);
  /// Sends on: the arguments of a call are complete, or it has been given up.
  void advance();
  /// Gives up a call that is not on its way: true, and it is nobody's here any more. One that is: asks the worker to.
  bool cancel(detail::ResultCell& cell);
  /// Asks the worker for the tasks that it has not begun: on_returned().
  void ask_back();

  /// Where one of its calls is, if the cell waits for one.
  struct Place {
    bool sent = false;
    std::uint64_t number = 0;  ///< of one that was sent
  };
  std::optional<Place> find(const detail::ResultCell& cell) const;

  /// Calls without a reply, in their order.
  struct Unanswered {
    std::vector<detail::CellHandle> sent;
    std::vector<detail::CellHandle> unsent;
  };
  /// Ends the connection to this incarnation, if that is the one, as its other end would.
  void leave(std::uint32_t incarnation);

  /// The worker is gone for this reason, which fails every later call. Only the first reason counts.
  Unanswered cut(const Error& why);
  /// The same, and what is unanswered fails.
  void lose(const Error& why);
  /// While there is no connection: what is unanswered fails. Later calls wait for the next one.
  void fail(const Error& why);

  /// Writes what is queued. Any thread.
  void flush() override;

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  std::size_t in_flight() const { return in_flight_.load(std::memory_order_acquire); }
  std::uint32_t incarnation() const;

  void on_frames(net::FrameBatch frames, std::vector<Fd> descriptors) override;
  void on_room() override;
  void on_closed(Error why) override;

 private:
  std::vector<detail::CellHandle> take_sent(std::int32_t max_retries);
  void send_again();
  void send_call(detail::ResultCell& cell, std::uint64_t number);
  void send_cancel(std::uint64_t number);
  void send_retry(const detail::ResultCell::Call& call, std::uint64_t number);
  void set_stragglers_aside();
  Unanswered take_unanswered();
  static void fail(const Unanswered& unanswered, const Error& why);
  std::optional<std::uint64_t> number_of(const detail::ResultCell& cell) const;
  detail::ResultCell* take(std::uint64_t number);
  std::uint64_t all_answered_below() const;
  void acknowledge();
  /// A call that is not sent yet, and so not numbered.
  struct Held {
    explicit Held(detail::CellHandle held) : cell{std::move(held)}, bytes{cell->arguments().size()} {}
    detail::CellHandle cell;
    std::size_t bytes;  // of its arguments, as far as they were there when it came
  };
  bool is_full() const { return needs_room_ || link_->queued() > net::Link::kQueuedMax; }
  std::optional<Error> wait_for_room(std::unique_lock<std::mutex>& lock, detail::ResultCell& cell);
  bool reads_no_more(TimePoint now);
  void hold_back(std::deque<Held>::iterator before, detail::CellHandle cell);
  detail::CellHandle take_held_back(std::deque<Held>::iterator held);
  void note_sent_or_gone(const Held& held);
  std::size_t send_now(detail::CellHandle cell);
  void send_held_back();
  Result<detail::ActorHandles> receive_actors(std::span<const std::byte>& payload);
  void acknowledge_later(std::uint64_t number);
  void acknowledge_what_came_with(std::uint64_t number);
  void take_error(Error error, detail::CellHandle cell);
  void take_value(const wire::FrameView& reply, detail::CellHandle cell);
  wire::FrameHeader note(wire::FrameKind kind, std::uint64_t number) const;
  void take_cells(net::FrameBatch frames, std::vector<detail::ResultCell*>& cells);

  const CallerId caller_;
  const Side side_;
  Bounds bounds_;
  const Numbers numbers_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<FlushQueue> flush_queue_;
  const std::shared_ptr<LargeValues> large_values_;
  const std::weak_ptr<detail::Caller> receiver_;  // of handles in results
  const std::weak_ptr<Observer> observer_;

  mutable std::mutex mutex_;
  std::shared_ptr<net::Link> link_;  // null while not connected
  bool awaits_link_ = false;         // the observer knows that the last one has ended
  Callee callee_;
  std::uint64_t first_unanswered_;
  std::deque<detail::ResultCell*> unanswered_;  // from first_unanswered_ on; null once answered; each holds a reference
  std::map<std::uint64_t, detail::ResultCell*> stragglers_;  // that later calls have left behind
  std::deque<Held> held_back_;
  std::size_t held_bytes_ = 0;                       // of these
  std::size_t unordered_held_back_ = 0;              // of these
  std::size_t returned_ = 0;                         // the first of these; then nothing goes over this link
  bool needs_room_ = false;                          // some of these could go, if the link were not full: on_room()
  std::vector<const detail::ResultCell*> entering_;  // whose threads wait for room
  std::uint64_t given_bytes_ = 0;                    // to the link
  std::uint64_t taken_bytes_ = 0;                    // of these, that it had written when somebody last looked
  TimePoint taken_at_;                               // when that had changed
  std::optional<Error> why_lost_;
  std::atomic<std::size_t> unflushed_bytes_ = 0;  // changed under the mutex
  // Of a remote actor: whose replies have come since the last acknowledgement.
  std::vector<std::uint64_t> unacknowledged_;
  std::size_t unacknowledged_bytes_ = 0;

  std::atomic<bool> lost_ = false;
  std::atomic<std::size_t> in_flight_ = 0;
  std::vector<detail::ResultCell*> answered_;  // the reading thread's, kept for its memory
};

}  // namespace pharos::actors
