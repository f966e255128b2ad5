#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <pharos/actors/cell_handle.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/mutex.hpp>
#include <pharos/net/link.hpp>
#include <pharos/object_store/store_client.hpp>
#include <pharos/wire/error_codec.hpp>
#include <pharos/wire/frame.hpp>

#include "caller/flush_queue.hpp"
#include "caller/held_calls.hpp"
#include "caller/sent_calls.hpp"
#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"

namespace pharos::actors {

/// One caller's calls to one worker, in their order. The worker is an actor, or is leased for tasks. Calls are numbered
/// and kept until their replies come, and are held back until the worker is connected and their arguments are complete.
/// Owned by the caller's ActorHandle or TaskPool, and by calls that are being sent. Any thread. The observer and the
/// receiver are referred to weakly.
/// Failure: when the connection ends, calls wait until connect(), lose(), cut() or fail() decides about them. Calls
/// that were never sent end as "not started", the others as "unknown".
/// End: cut() or lose() must come before the destructor, which drops the calls that are left: their cells would stay
/// pending.
/// Bounds: the call after `kInFlightMax` without a reply fails with kOverloaded. While more than Link::kQueuedMax bytes
/// wait for the worker to read them, the link is full, and WhenFull says what happens to a call.
class OutgoingCalls final : public net::Link::Handler,
                            public Flushable,
                            public std::enable_shared_from_this<OutgoingCalls> {
 public:
  static constexpr std::size_t kInFlightMax = std::size_t{1} << 24;
  /// Bytes of calls that a worker may hold back because the link is full.
  static constexpr std::size_t kHeldBytesMax = std::size_t{1} << 30;
  /// The limits beyond which a call fails.
  struct Bounds {
    std::size_t in_flight = kInFlightMax;
    std::size_t held_bytes = kHeldBytesMax;
  };

  /// Says what happens to a call when the link is full.
  enum class WhenFull : std::uint8_t {
    /// The calling thread waits for room, no longer than the call's deadline (kDeadlineExceeded), or until the call
    /// that it runs is cancelled (kCancelled). In a worker it waits only as long as the callee reads: a callee that has
    /// read nothing for 100 ms may be waiting for this worker, so the call is then held back. When kHeldBytesMax are
    /// held back, the thread waits again, and after 30 s without a read the call fails with kOverloaded.
    kWait,
    /// The call is held back until there is room.
    kHold,
    /// The call is not taken. It is not taken either when Link::kQueuedMax bytes are held back for another reason: the
    /// worker is not connected, or arguments are not complete.
    kRefuse,
  };
  /// The kind of process that calls.
  enum class Side : std::uint8_t { kProgram, kWorker };

  /// The owner of the link, which is told of its events. It is called without locks, in the order of the events: on the
  /// thread that reads the link; on_large_result() and on_result_lost() perhaps later, on the strand.
  class Observer {
   public:
    virtual ~Observer() = default;
    /// Replies have come, for calls that ran for `execution` together. `in_flight` calls are left.
    virtual void on_replies(OutgoingCalls& link, std::size_t replies, Duration execution, std::size_t in_flight) = 0;
    /// The worker returns calls that it has not begun: its running task waits for something or takes long, or the
    /// worker is to end and takes no more calls.
    virtual void on_returned(OutgoingCalls& link, std::vector<detail::CellHandle> cells, bool takes_more) = 0;
    /// The call has a result, which lies in the object store.
    virtual void on_large_result(detail::CellHandle cell, std::shared_ptr<object_store::Object> object,
                                 detail::ActorHandles actors) {
      cell->set_object(std::move(object), std::move(actors));
    }
    /// The call has run, but its result was lost on the way.
    virtual void on_result_lost(detail::CellHandle cell, const Error& why) { cell->set_error(why); }
    /// The call was not begun, because an argument was lost.
    virtual void on_argument_lost(detail::CellHandle cell, const Error& why) { cell->set_error(why); }
    /// The connection has ended. Calls wait for connect(), lose(), cut() or fail().
    virtual void on_disconnected(OutgoingCalls& link) = 0;
  };

  /// Takes what comes with results, for the caller. It is the caller's KnownActors. Called without locks, on the thread
  /// that reads the link or on the strand.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// Returns a handle of an actor that came in a result.
    virtual std::shared_ptr<detail::ActorHandle> receive(const CarriedActor& carried) = 0;
    /// Runs `then` once the head has counted the handles that were received before, and the node has been told of the
    /// shares in objects.
    virtual void when_held(async::Callback then) = 0;
  };

  /// A number above those of all calls of this caller's ended connections; a new one starts from it. A callee on
  /// another machine knows calls by their numbers, also those that came over an earlier connection.
  using Numbers = std::shared_ptr<std::atomic<std::uint64_t>>;

  /// The caller, as all its OutgoingCalls know it. A value; each of them has a copy.
  struct Sender {
    CallerId caller{};
    Side side{};
    Numbers numbers;
    std::shared_ptr<const Clock> clock;
    std::shared_ptr<FlushQueue> flush_queue;
    std::shared_ptr<LargeValues> large_values{};
    std::weak_ptr<Receiver> receiver{};
    Bounds bounds{};  ///< a test sets some that it can reach
  };

  OutgoingCalls(Sender sender, std::weak_ptr<Observer> observer)
      : sender_{std::move(sender)}, observer_{std::move(observer)}, sent_{sender_.numbers->load()} {}

  /// The worker at the other end of a connection. A value.
  struct Callee {
    ActorId actor;  ///< empty if the worker runs tasks
    std::uint32_t incarnation = 0;
    std::int32_t max_retries = 0;  ///< how often a call that was under way is sent to the next incarnation
    bool remote = false;           ///< true if the worker is on another machine
    /// Returns whether the same incarnation can be reached again after its connection has ended. Such a callee knows
    /// which calls it has seen, and keeps its replies until they are acknowledged.
    bool comes_back() const { return remote && actor; }
  };
  /// The worker is connected: starts the link and sends the calls that were held back. Calls that were under way when
  /// an earlier connection ended go before all others. If the callee is the same incarnation of a remote actor, all of
  /// them are sent again, under their numbers. Otherwise those that have a retry left are sent, and the others fail
  /// with `why_ended`.
  void connect(std::shared_ptr<net::Link> link, const Callee& callee, const Error& why_ended);

  /// Sends the cell's call. If its arguments are not complete, the call and those behind it are held back until
  /// advance(). If the worker is lost (lost()), the call fails at once; if its arguments take more than 1 GiB, with
  /// kInvalidArgument. Returns false only with kRefuse, if the link is full or kInFlightMax calls are in flight; the
  /// cell then stays pending.
  bool send(detail::CellHandle cell, WhenFull when_full);
  /// Returns whether the link is full, so that send() with kRefuse returns false.
  bool refuses() const;
  /// Takes back calls that the present incarnation has returned, since it is about to end. They go to the next
  /// incarnation before all others, and nothing more is sent to the present one.
  void hold_for_next(std::vector<detail::CellHandle> returned);
  /// Sends calls that were held back: the arguments of one have become complete, or one was given up.
  void advance();
  /// Gives up a call that has not been sent: returns true, and the link has dropped it. If the call has been sent, asks
  /// the worker to cancel it, and returns false.
  bool cancel(detail::ResultCell& cell);
  /// Asks the worker to return the tasks that it has not begun; see on_returned().
  void ask_back();

  /// Says where the call of a cell is.
  struct Place {
    bool sent = false;
    std::uint64_t number = 0;  ///< number of a call that was sent
  };
  /// Returns nullopt if no call of this link brings the cell's result.
  std::optional<Place> find(const detail::ResultCell& cell) const;
  /// Returns whether the call of this number was sent and has no reply yet.
  bool awaits(std::uint64_t number) const;

  /// Calls without a reply, in their order.
  struct Unanswered {
    std::vector<detail::CellHandle> sent;
    std::vector<detail::CellHandle> unsent;
  };
  /// Ends the connection, as if the worker had ended it, if it is a connection to this incarnation.
  void leave(std::uint32_t incarnation);

  /// The worker is gone for this reason: every later call fails with it. Only the first reason counts. Returns the
  /// calls that have no reply.
  Unanswered cut(const Error& why);
  /// The same, and the calls that have no reply fail.
  void lose(const Error& why);
  /// If there is no connection, the calls that have no reply fail. Later calls wait for the next connection.
  void fail(const Error& why);

  /// Writes the frames that are queued. Any thread.
  void flush() override;

  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  std::size_t in_flight() const { return in_flight_.load(); }
  std::uint32_t incarnation() const;

  void on_frames(net::FrameBatch frames, std::vector<Fd> descriptors) override;
  void on_room() override;
  void on_closed(Error why) override;

 private:
  std::vector<detail::CellHandle> take_sent(std::int32_t max_retries);
  void send_again();
  void send_call(detail::ResultCell& cell, std::uint64_t number);
  void send_retry(const detail::ResultCell::Call& call, std::uint64_t number);
  Unanswered take_unanswered();
  static void fail(const Unanswered& unanswered, const Error& why);
  void acknowledge();
  bool is_full() const { return needs_room_ || link_->queued() > net::Link::kQueuedMax; }
  std::optional<Error> wait_for_room(std::unique_lock<Mutex>& lock, detail::ResultCell& cell);
  bool reads_no_more(TimePoint now);
  std::size_t send_now(detail::CellHandle cell);
  void send_held_back();
  Result<detail::ActorHandles> receive_actors(std::span<const std::byte>& payload);
  void acknowledge_later(std::uint64_t number);
  void acknowledge_what_came_with(std::uint64_t number);
  void take_error(Error error, detail::CellHandle cell);
  void take_value(const wire::FrameView& reply, detail::CellHandle cell);
  wire::FrameHeader note(wire::FrameKind kind, std::uint64_t number) const;
  void take_cells(net::FrameBatch frames, std::vector<detail::CellHandle>& cells);

  /// Bytes that went to the callee, and what is known about when it reads.
  struct Progress {
    std::uint64_t given = 0;  // bytes that were given to the link
    std::uint64_t taken = 0;  // bytes that the link had written when reads_no_more() looked last
    TimePoint taken_at;       // when `taken` was seen to change
  };
  /// For a remote actor: the replies that have come since the last acknowledgement.
  struct Unacknowledged {
    std::vector<std::uint64_t> numbers;
    std::size_t bytes = 0;
  };

  const Sender sender_;
  const std::weak_ptr<Observer> observer_;

  mutable Mutex mutex_;
  std::shared_ptr<net::Link> link_;  // null while there is no connection
  bool awaits_link_ = false;         // the observer has been told that the last connection ended
  Callee callee_;
  SentCalls sent_;
  HeldCalls held_;
  bool needs_room_ = false;                          // calls in held_ could go if the link were not full
  std::vector<const detail::ResultCell*> entering_;  // cells of calls whose threads wait for room
  Progress progress_;
  Unacknowledged unacknowledged_;
  std::optional<Error> why_lost_;
  std::atomic<std::size_t> unflushed_bytes_ = 0;  // changed under the mutex

  std::atomic<bool> lost_ = false;  // why_lost_ is set. Relaxed: whoever sends looks at why_lost_ under the mutex
  // Sequentially consistent, as the shares of ActorHandle are: of the thread that takes the last reply and the thread
  // that gives up the last share, at least one must see that the other was there.
  std::atomic<std::size_t> in_flight_ = 0;
  // Used by the reading thread; members so that their memory is reused.
  std::vector<detail::CellHandle> answered_;  // for each frame the cell that it answers
  std::vector<detail::CellHandle> ran_;       // those of one-way calls that have run
};

}  // namespace pharos::actors
