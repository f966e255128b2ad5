#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <pharos/actors/codec_context.hpp>
#include <pharos/net/link.hpp>
#include <pharos/wire/message.hpp>

#include "caller/call_notes.hpp"
#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "worker/call_origin.hpp"
#include "worker/ran_calls.hpp"
#include "worker/reply_cache.hpp"
#include "worker/strand.hpp"
#include "worker/workplace.hpp"

namespace pharos::actors {

class CoroutineCall;

/// The state that a worker keeps for an actor's caller on another machine, from one of its connections to the next.
/// Shared by its IncomingCalls and by CallServer, which forgets it when the caller has been away for 90 s. Used on the
/// strand alone, except link(), `notes` and `handed_over`.
struct RemoteCaller {
  RemoteCaller(CallerId caller, std::uint64_t next) : id{caller}, replies{next} {}

  std::shared_ptr<net::Link> link() const {
    const std::lock_guard lock{mutex};
    return newest_link;
  }

  const CallerId id;
  CallNotes notes;
  HandedOver handed_over;
  ReplyCache replies;
  TimePoint last_here;  // when its last connection ended; under the mutex of CallServer
  mutable std::mutex mutex;
  std::shared_ptr<net::Link> newest_link;
};

/// The calls that come from one caller over one connection: runs them on the strand and sends the replies.
/// Owned by CallServer until the connection ends, and by calls that run or are suspended. Frames come on any thread;
/// calls run on the strand. `workplace` and `owner` must outlive it.
/// Failure: a call that must not begin gets its error as the reply: kFunctionNotFound, kDeadlineExceeded, kCancelled,
/// kActorDied (another incarnation, or the actor stops), kFailedPrecondition (no object), kUnavailable (a call that the
/// worker has forgotten). A connection over which a frame comes that no caller sends is closed, with a warning in the
/// worker's log. A remote caller that leaves more than 256 MiB of replies unacknowledged is disconnected, and its
/// replies are dropped. Bounds: stops reading when kBatchesMax batches wait to be run, and stops running calls while
/// the caller does not read the replies. End: calls that came before the end of the connection still run; their replies
/// are then dropped, unless `remote` keeps them.
class IncomingCalls final : public CallOrigin,
                            public net::Link::Handler,
                            public Strand::Runner,
                            public Flushable,
                            public std::enable_shared_from_this<IncomingCalls> {
 public:
  /// Owns the connections.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The connection has ended. Called on a thread of the link.
    virtual void forget(const IncomingCalls& incoming) = 0;
  };
  /// `remote` is null for a caller on this machine, whose connection ends only when one of the two processes ends; and
  /// for a caller of tasks.
  IncomingCalls(Workplace& workplace, Owner& owner, wire::ServeCaller serves, std::shared_ptr<RemoteCaller> remote)
      : workplace_{workplace},
        owner_{owner},
        serves_{serves},
        compute_threads_{ComputeThreads::number_for(serves.holding)},
        remote_{std::move(remote)},
        notes_{remote_ == nullptr ? own_notes_ : remote_->notes},
        room_{workplace.caller()->large_values(), serves.caller} {
    result_.set_large_room(&room_);
    result_.set_context(&carried_);
  }

  void start(std::shared_ptr<net::Link> link) {
    link_ = std::move(link);
    if (remote_ != nullptr) {
      const std::lock_guard lock{remote_->mutex};
      remote_->newest_link = link_;
    }
    link_->start(shared_from_this());
  }
  const std::shared_ptr<RemoteCaller>& remote() const { return remote_; }
  CallNotes& notes() { return notes_; }
  /// Returns whether this keeps objects or handles that the caller has not taken over yet.
  bool keeps_for_caller() const { return serves_.remote && !handed_over_.empty(); }
  const wire::WorkerResources& holding() const override { return serves_.holding; }
  int compute_threads() const override { return compute_threads_; }

  bool wants_more() override { return batches_waiting_.load() < kBatchesMax; }
  void on_frames(net::FrameBatch frames, std::vector<Fd>) override {
    const Notes notes = read_notes(frames, batches_waiting_.load() != 0);
    if (notes.nonsense) return end_for_nonsense(*notes.nonsense);
    batches_waiting_.fetch_add(1);
    workplace_.strand().push(shared_from_this(), std::move(frames));
    // A task that blocks returns the tasks that wait then. Tasks that come later are returned here.
    if (notes.wants_tasks_back || workplace_.blocked()) workplace_.strand().give_back_waiting();
    if (notes.wants_tasks_back) give_back_rest();
  }
  void on_idle() override { workplace_.strand().run(); }
  void on_closed(Error why) override;
  void flush() override {
    unflushed_.store(false);
    write_replies();
    link_->resume();
  }

  void run(net::FrameBatch batch, bool more_follow) override;
  void on_drained() override { write_replies(); }

  void conclude(const wire::FrameHeader& call, const std::optional<Error>& error, Encoder& result,
                bool more_follow) override;
  void write_replies() override {
    ran_.send(*link_);
    out()->flush();
  }
  void block() override;
  bool cancelled(std::uint64_t number) const override { return notes_.of(number).cancelled; }
  Deadline deadline_of(std::uint64_t number) const override { return notes_.of(number).deadline; }
  Retries retries_of(std::uint64_t number) const override { return notes_.of(number).retries; }

  void give_back(net::FrameBatch batch) override {
    give_back_frames(batch);
    batches_waiting_.fetch_sub(1);
    link_->flush();
    link_->resume();
  }
  /// Returns to the caller the tasks that came in the same batch as the running one and wait behind it. Any thread.
  void give_back_rest() {
    link_->flush();
    {
      const auto lock = lock_batch();
      give_back_frames(batch_);
    }
    link_->flush();
  }

 private:
  static constexpr std::size_t kBatchesMax = 8;  // batches that wait to be run, with a read buffer each

  // Frames that come from the caller.
  struct Notes {
    bool wants_tasks_back = false;            // those that have not begun
    std::optional<wire::FrameKind> nonsense;  // a kind of frame that no caller sends
  };
  Notes read_notes(net::FrameBatch frames, bool others_first);
  void end_for_nonsense(wire::FrameKind kind);
  /// Another thread may return tasks of the batch while one of them runs. An actor's calls stay, so they need no lock.
  std::unique_lock<std::mutex> lock_batch() {
    return serves_.actor ? std::unique_lock<std::mutex>{} : std::unique_lock{batch_mutex_};
  }
  struct Taken {
    wire::FrameView frame;
    std::shared_ptr<const void> buffer;  // keeps the frame for values that share its bytes; null if values copy them
  };
  std::optional<Taken> take_next();
  bool is_last();
  void take_acknowledgement(const wire::FrameView& frame);
  bool take_account(const wire::FrameView& frame);
  std::optional<Error> refusal_of(const wire::FrameHeader& header, bool stops) const;
  std::shared_ptr<CoroutineCall> run_one(const Taken& taken, bool stops);
  void give_back_frames(net::FrameBatch& batch);
  void give_back_frame(wire::FrameHeader header, wire::ReplyStatus status = wire::ReplyStatus::kReturned);

  // Frames that go to the caller. A remote caller may have come back by another connection than the one of the call.
  std::shared_ptr<net::Link> out() const { return remote_ == nullptr ? link_ : remote_->link(); }
  HandedOver& handed_over() { return remote_ == nullptr ? handed_over_ : remote_->handed_over; }
  void reply(const wire::FrameHeader& call, const std::optional<Error>& error, Encoder& result, Duration execution);
  void reply_with_more(wire::FrameHeader header, const Encoder& result);
  void reply_too_large(const wire::FrameHeader& call, Encoder& result, Duration execution);
  bool send(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void flush_later() {
    if (!unflushed_.exchange(true)) workplace_.flush_queue().add(weak_from_this());
  }

  Workplace& workplace_;
  Owner& owner_;
  const wire::ServeCaller serves_;
  const int compute_threads_;
  const std::shared_ptr<RemoteCaller> remote_;
  std::shared_ptr<net::Link> link_;
  std::atomic<std::size_t> batches_waiting_ = 0;
  RanCalls ran_;                         // used if the caller is not remote
  std::atomic<bool> unflushed_ = false;  // this is in the flush queue, because replies wait to be written
  CallNotes own_notes_;
  CallNotes& notes_;  // own_notes_, or those of the remote caller, which all its connections share
  std::mutex batch_mutex_;
  net::FrameBatch batch_;  // the rest of the batch that is being run
  // The members below are used on the strand alone.
  TimePoint last_end_;    // when the last call of the batch ended
  unsigned untimed_ = 0;  // counts one-way calls
  RoomIn room_;
  CodecContext carried_;
  Encoder result_;
  HandedOver handed_over_;  // used if the caller is not remote
};

}  // namespace pharos::actors
