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

#include "call_marks.hpp"
#include "calls.hpp"
#include "carried_actors.hpp"
#include "large_values.hpp"
#include "reply_cache.hpp"
#include "strand.hpp"

namespace pharos::actors {

class CoroutineCall;

/// A caller on another machine: what it is owed survives its connections. The strand's, but for `link`.
struct RemoteCaller {
  RemoteCaller(CallerId caller, std::uint64_t next) : id{caller}, replies{next} {}

  std::shared_ptr<net::Link> link() const {
    const std::lock_guard lock{mutex};
    return newest_link;
  }

  const CallerId id;
  CallMarks marks;
  HandedOver handed_over;
  ReplyCache replies;
  TimePoint last_here;  // of Calls, under its mutex
  mutable std::mutex mutex;
  std::shared_ptr<net::Link> newest_link;
};

/// One caller's connection: runs its calls on the worker's strand and answers.
class CallerLink final : public net::Link::Handler,
                         public Strand::Runner,
                         public Flushable,
                         public std::enable_shared_from_this<CallerLink> {
 public:
  /// `remote`: null for one whose connection ends only with one of the two: on this machine, or of a task.
  CallerLink(Calls& calls, wire::ServeCaller serves, std::shared_ptr<RemoteCaller> remote)
      : calls_{calls},
        serves_{serves},
        remote_{std::move(remote)},
        marks_{remote_ == nullptr ? own_marks_ : remote_->marks},
        room_{calls.caller()->large_values(), serves.caller} {
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
  CallMarks& marks() { return marks_; }
  /// The caller may not have heard yet of what it has been given.
  bool keeps_for_caller() const { return serves_.remote && !handed_over_.empty(); }
  const wire::Holding& holding() const { return serves_.holding; }

  bool wants_more() override { return batches_waiting_.load() < kBatchesMax; }
  void on_frames(net::FrameBatch frames, std::vector<Fd>) override {
    const bool gives_back = note_marks(frames, batches_waiting_.fetch_add(1) != 0);
    calls_.strand().push(shared_from_this(), std::move(frames));
    // Whoever blocks gives back what it finds; this, what comes later.
    if (gives_back || calls_.blocked()) calls_.strand().give_back_waiting();
    if (gives_back) give_back_rest();
  }
  void on_idle() override { calls_.strand().run(); }
  void on_closed(Error) override {
    link_->close();
    calls_.forget(*this);
  }
  void flush() override {
    unflushed_.store(false);
    out()->flush();
    link_->resume();
  }

  void run(net::FrameBatch batch, bool more_follow) override;
  void on_drained() override { out()->flush(); }
  /// It has come to its end.
  void conclude(CoroutineCall& call, bool more_follow);

  /// Its caller has asked for this call to stop.
  bool cancelled(std::uint64_t number) const { return marks_.of(number).cancelled; }
  Deadline deadline_of(std::uint64_t number) const { return marks_.of(number).deadline; }
  Retries retries_of(std::uint64_t number) const { return marks_.of(number).retries; }

  void give_back(net::FrameBatch batch) override {
    give_back_frames(batch);
    batches_waiting_.fetch_sub(1);
    link_->flush();
    link_->resume();
  }
  /// What came together with the call that runs, and waits behind it. Any thread.
  void give_back_rest() {
    link_->flush();
    {
      const auto lock = lock_batch();
      give_back_frames(batch_);
    }
    link_->flush();
  }

 private:
  static constexpr std::size_t kBatchesMax = 8;  // a read buffer each, that wait to be run

  // What comes.
  /// True: its caller wants back what has not begun.
  bool note_marks(net::FrameBatch frames, bool others_first);
  /// Tasks may be given back while one of them runs. An actor's calls stay where they are.
  std::unique_lock<std::mutex> lock_batch() {
    return serves_.actor ? std::unique_lock<std::mutex>{} : std::unique_lock{batch_mutex_};
  }
  struct Taken {
    wire::FrameView frame;
    std::shared_ptr<const void> buffer;  // what keeps it, if values may share it
  };
  std::optional<Taken> take_next();
  bool is_last();
  bool take_account(const wire::FrameView& frame);
  std::optional<Error> refusal_of(const wire::FrameHeader& header, bool stops) const;
  std::shared_ptr<CoroutineCall> run_one(const Taken& taken, bool stops);
  void give_back_frames(net::FrameBatch& batch);
  void give_back_frame(wire::FrameHeader header, wire::ReplyStatus status = wire::ReplyStatus::kReturned);

  // What goes: a remote caller may have come back by another connection than the one that brought the call.
  std::shared_ptr<net::Link> out() const { return remote_ == nullptr ? link_ : remote_->link(); }
  HandedOver& handed_over() { return remote_ == nullptr ? handed_over_ : remote_->handed_over; }
  void reply(const wire::FrameHeader& call, const std::optional<Error>& error, Encoder& result, Duration execution);
  void reply_with_more(wire::FrameHeader header, const Encoder& result);
  void reply_too_large(const wire::FrameHeader& call, Encoder& result, Duration execution);
  bool send(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void flush_later() {
    if (!unflushed_.exchange(true)) calls_.flush_queue().add(weak_from_this());
  }

  Calls& calls_;
  const wire::ServeCaller serves_;
  const std::shared_ptr<RemoteCaller> remote_;
  std::shared_ptr<net::Link> link_;
  std::atomic<std::size_t> batches_waiting_ = 0;
  std::atomic<bool> unflushed_ = false;  // a reply waits for the timer
  CallMarks own_marks_;
  CallMarks& marks_;  // of a remote caller, whichever connection they came by
  std::mutex batch_mutex_;
  net::FrameBatch batch_;  // what is left of the one that is being run
  // The strand's.
  TimePoint last_end_;  // of the last call in it
  RoomIn room_;
  CodecContext carried_;
  Encoder result_;
  HandedOver handed_over_;  // to a caller that does not come back
};

}  // namespace pharos::actors
