#include "call_link.hpp"

#include <chrono>

namespace pharos::actors {
namespace {

using detail::CellHandle;
using detail::ResultCell;
using wire::FrameHeader;
using wire::FrameKind;

// So much is queued before a write although no reply has come: about a hundred calls, one page or two.
constexpr std::size_t kFlushBytes = 12 << 10;
constexpr auto kRoomTime = std::chrono::milliseconds{100};  // then it looks again whether the worker is gone

}  // namespace

void CallLink::connect(std::shared_ptr<net::SocketLink> link, std::uint32_t incarnation) {
  // Before any thread can send: a link that is not watched yet would never learn that its socket takes more again.
  link->start(shared_from_this());
  {
    const std::lock_guard lock{mutex_};
    link_ = link;
    incarnation_ = incarnation;
    for (HeldBack& call : held_back_) {
      call.header.incarnation = incarnation;
      link_->send(call.header, call.arguments);
    }
    held_back_ = {};
    sent_below_ = next_number_;
    if (why_lost_) link_->close();
  }
  link->flush();
}

void CallLink::send(FrameKind kind, std::uint32_t function, std::span<const std::byte> arguments, CellHandle cell) {
  FrameHeader header;
  header.kind = kind;
  header.caller = caller_.value();
  header.actor = actor_.value();
  header.function = function;

  if (arguments.size() > wire::kCallPayloadMax.bytes()) {
    return cell->set_error(
        Error{ErrorCode::kInvalidArgument, "the arguments have " + to_string(ByteCount{arguments.size()}) +
                                               "; at most " + to_string(wire::kCallPayloadMax) + " can travel"}
            .with_outcome(Outcome::kNotStarted));
  }
  std::unique_lock lock{mutex_};
  if (link_ != nullptr && link_->queued() > net::Link::kQueuedMax) hold_back_user(lock);
  if (why_lost_) {
    const Error why = Error{*why_lost_}.with_outcome(Outcome::kNotStarted);
    lock.unlock();
    return cell->set_error(why);
  }
  if (unanswered_.size() >= kInFlightMax) {
    lock.unlock();
    return cell->set_error(Error{ErrorCode::kOverloaded,
                                 std::to_string(kInFlightMax) + " calls to this actor have not been answered",
                                 "get() some of their results before calling again."}
                               .with_outcome(Outcome::kNotStarted));
  }
  header.number = next_number_++;
  unanswered_.push_back(cell.detach());
  const std::size_t before = in_flight_.fetch_add(1, std::memory_order_acq_rel);
  if (link_ == nullptr) {
    held_back_.push_back({header, {arguments.begin(), arguments.end()}});
    return;
  }
  header.incarnation = incarnation_;
  link_->send(header, arguments);
  sent_below_ = next_number_;
  const bool clean = unflushed_bytes_ == 0;
  unflushed_bytes_ += sizeof header + arguments.size();
  // Nothing under way: the worker is idle, and should begin now. Else more calls may come before it is done with
  // those it has, and they can go together.
  if (before == 0 || unflushed_bytes_ >= kFlushBytes) {
    unflushed_bytes_ = 0;
    const auto link = link_;
    lock.unlock();
    link->flush();
    return;
  }
  lock.unlock();
  if (clean) flush_queue_->add(weak_from_this());
}

// The bound: the calling thread waits until the worker has read some.
void CallLink::hold_back_user(std::unique_lock<std::mutex>& lock) {
  while (!why_lost_ && link_ != nullptr && link_->queued() > net::Link::kQueuedMax) {
    unflushed_bytes_ = 0;
    const auto link = link_;
    lock.unlock();
    link->flush();
    link->wait_for_room(net::Link::kQueuedMax, Deadline::after(kRoomTime, std::chrono::steady_clock::now()));
    lock.lock();
  }
}

void CallLink::flush() {
  if (unflushed_bytes_.load(std::memory_order_relaxed) == 0) return;  // who has just added some flushes later
  std::shared_ptr<net::SocketLink> link;
  {
    const std::lock_guard lock{mutex_};
    if (unflushed_bytes_ == 0) return;
    unflushed_bytes_ = 0;
    link = link_;
  }
  if (link != nullptr) link->flush();
}

// Moves the waiting cells of these replies out; null for a reply that nobody waits for.
void CallLink::take_cells(net::FrameBatch frames, std::vector<ResultCell*>& cells) {
  const std::lock_guard lock{mutex_};
  while (!frames.empty()) {
    const FrameHeader header = frames.next().header;
    ResultCell* cell = nullptr;
    if (header.kind == FrameKind::kReply && header.number - first_unanswered_ < unanswered_.size()) {
      cell = std::exchange(unanswered_[header.number - first_unanswered_], nullptr);
    }
    cells.push_back(cell);
    while (!unanswered_.empty() && unanswered_.front() == nullptr) {
      unanswered_.pop_front();
      ++first_unanswered_;
    }
  }
}

void CallLink::on_frames(net::FrameBatch frames, std::vector<Fd>) {
  answered_.clear();
  take_cells(frames, answered_);
  Duration execution{};
  std::size_t replies = 0;
  for (ResultCell* const taken : answered_) {
    const wire::FrameView frame = frames.next();
    if (taken == nullptr) continue;
    const CellHandle cell{taken};
    if (frame.header.status == wire::ReplyStatus::kOk) {
      cell->set_value(frame.payload);
    } else {
      Decoder decoder{frame.payload};
      cell->set_error(Codec<Error>::decode(decoder));
    }
    execution += Duration{frame.header.time};
    ++replies;
  }
  const std::size_t left = in_flight_.fetch_sub(replies, std::memory_order_acq_rel) - replies;
  if (const auto observer = observer_.lock()) observer->on_replies(*this, replies, execution, left);
  flush();
}

void CallLink::on_closed(Error) {
  if (const auto observer = observer_.lock()) observer->on_disconnected(*this);
}

void CallLink::lose(const Error& why) {
  std::deque<ResultCell*> cells;
  std::uint64_t number = 0;
  std::uint64_t sent_below = 0;
  std::shared_ptr<net::SocketLink> link;
  {
    const std::lock_guard lock{mutex_};
    if (why_lost_) return;
    why_lost_ = why;
    lost_.store(true, std::memory_order_release);
    cells.swap(unanswered_);
    number = first_unanswered_;
    sent_below = sent_below_;
    held_back_.clear();
    link = link_;
  }
  if (link != nullptr) link->close();
  for (ResultCell* const taken : cells) {
    const Outcome outcome = number++ < sent_below ? Outcome::kUnknown : Outcome::kNotStarted;
    if (taken == nullptr) continue;
    const CellHandle cell{taken};
    cell->set_error(Error{why}.with_outcome(outcome));
    in_flight_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace pharos::actors
