#include "caller/outgoing_calls.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "caller/refused.hpp"
#include "program/function_table.hpp"
#include "program/safeguard.hpp"
#include "program/thread_state.hpp"
#include "results/callbacks.hpp"
#include "worker/running_call.hpp"

namespace pharos::actors {
namespace {

using detail::CellHandle;
using detail::ResultCell;
using wire::FrameHeader;
using wire::FrameKind;

// Bytes that are queued at most before a write, when no reply comes to trigger one: about a hundred calls.
constexpr std::size_t kFlushBytes = 12 << 10;
// The replies that a remote actor keeps at most for this caller if no further call acknowledges them: their number and
// their bytes. Beyond that the caller sends an acknowledgement of its own.
constexpr std::size_t kUnacknowledgedMax = 64;
constexpr std::size_t kUnacknowledgedBytes = 256 << 10;
constexpr Duration kRoomTime = std::chrono::milliseconds{50};    // one slice of a wait for room
constexpr Duration kStillTime = std::chrono::milliseconds{100};  // without a read, as WhenFull::kWait says
constexpr Duration kStuckTime = std::chrono::seconds{30};        // the same

bool brings_more(const FrameHeader& reply) {
  return (reply.flags & (wire::kInPieces | wire::kCarriesActors)) != 0;
}

bool is_result(const FrameHeader& reply) {
  return reply.status == wire::ReplyStatus::kOk || reply.status == wire::ReplyStatus::kError;
}

void raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  std::uint64_t now = number.load();
  while (now < to && !number.compare_exchange_weak(now, to)) {
  }
}

}  // namespace

void OutgoingCalls::connect(std::shared_ptr<net::Link> link, const Callee& callee, const Error& why_ended) {
  {
    const std::lock_guard lock{mutex_};
    awaits_link_ = false;
  }
  // The link is started before any thread can send on it: a link that is not watched yet would not learn that its
  // socket has room again.
  link->start(shared_from_this());
  std::vector<CellHandle> failed;
  {
    const std::lock_guard lock{mutex_};
    link_ = link;
    held_.note_next();
    progress_.given = 0;
    const bool same = callee.comes_back() && callee_.actor == callee.actor && callee_.incarnation == callee.incarnation;
    callee_ = callee;
    if (why_lost_) {
      link_->close();
    } else {
      if (same) {
        send_again();
      } else {
        failed = take_sent(callee.max_retries);
      }
      send_held_back();
    }
  }
  link->flush();
  in_flight_ -= failed.size();
  for (const CellHandle& cell : failed) cell->set_error(Error{why_ended}.with_outcome(Outcome::kUnknown));
}

// Under the mutex. Puts the sent calls that have a retry left in front of those that are held back. Returns the others.
std::vector<CellHandle> OutgoingCalls::take_sent(std::int32_t max_retries) {
  const std::uint8_t retries = wire::retries_of(max_retries);
  std::vector<CellHandle> failed;
  std::vector<CellHandle> again;
  for (CellHandle& cell : sent_.take_all()) {
    if (stands(Safeguard::kRetry) && cell->call().attempt < retries && !cell->call().cancelled()) {
      cell->call().attempt = wire::next_attempt(cell->call().attempt);
      again.push_back(std::move(cell));
    } else {
      failed.push_back(std::move(cell));
    }
  }
  unacknowledged_ = {};
  held_.add_in_front(std::move(again));
  return failed;
}

std::uint32_t OutgoingCalls::incarnation() const {
  const std::lock_guard lock{mutex_};
  return callee_.incarnation;
}

// Under the mutex, with a link to the same incarnation as before, which knows by their numbers the calls that it has
// seen.
void OutgoingCalls::send_again() {
  for (const auto& [number, cell] : sent_.by_number()) {
    send_call(*cell, number);
    if (cell->call().cancelled()) link_->send(note(FrameKind::kCancel, number), {});
  }
}

// Under the mutex. Returns the header of a frame that says something about the call of this number.
FrameHeader OutgoingCalls::note(FrameKind kind, std::uint64_t number) const {
  FrameHeader header;
  header.kind = kind;
  header.caller = sender_.caller.value();
  header.number = number;
  header.actor = callee_.actor.value();
  header.incarnation = callee_.incarnation;
  return header;
}

// Under the mutex, with a link. Tells the worker which replies it need not keep any more.
void OutgoingCalls::acknowledge() {
  FrameHeader header = note(FrameKind::kAcknowledge, 0);
  header.acknowledged = sent_.all_answered_below();
  std::erase_if(unacknowledged_.numbers, [&](std::uint64_t number) { return number < header.acknowledged; });
  link_->send(header, std::as_bytes(std::span{unacknowledged_.numbers}));
  unacknowledged_.numbers.clear();
  unacknowledged_.bytes = 0;
}

// Under the mutex, with a link. Must be sent before the call.
void OutgoingCalls::send_retry(const ResultCell::Call& call, std::uint64_t number) {
  FrameHeader header = note(FrameKind::kRetry, number);
  header.attempt = call.max_retries;
  header.function = call.retry_on - 1;
  link_->send(header, {});
}

// Under the mutex, with a link.
void OutgoingCalls::send_call(ResultCell& cell, std::uint64_t number) {
  if (cell.call().retry_on != 0) [[unlikely]]
    send_retry(cell.call(), number);
  FrameHeader header;
  header.kind = cell.call().kind;
  header.flags = cell.call().flags;
  if (cell.call().unordered) header.flags |= wire::kUnordered;
  if (cell.call().one_way) header.flags |= wire::kOneWay;
  if (!callee_.actor && cell.call().attempt < cell.call().max_retries) header.flags |= wire::kMayRunAgain;
  header.attempt = cell.call().attempt;
  header.caller = sender_.caller.value();
  header.number = number;
  header.actor = callee_.actor.value();
  header.incarnation = callee_.incarnation;
  header.function = cell.call().foreign ? cell.call().index_there : cell.call().function;
  header.trace = cell.call().trace.value();
  header.acknowledged = sent_.all_answered_below();
  if (const Deadline deadline = cell.call().deadline; !deadline.is_never()) [[unlikely]] {
    // 0 would mean no deadline, so a deadline that has passed is sent as one nanosecond.
    header.time = std::max<std::int64_t>(deadline.left(sender_.clock->now()).count(), 1);
  }
  link_->send(header, cell.arguments());
}

// Under the mutex, with a link. Returns the number of bytes that were queued.
std::size_t OutgoingCalls::send_now(CellHandle cell) {
  const std::size_t bytes = sizeof(FrameHeader) + cell->arguments().size();
  send_call(*cell, sent_.next());
  sent_.add(std::move(cell));
  progress_.given += bytes;
  return bytes;
}

void OutgoingCalls::hold_for_next(std::vector<CellHandle> returned) {
  std::unique_lock lock{mutex_};
  if (why_lost_) {
    const Error why = Error{*why_lost_}.with_outcome(Outcome::kNotStarted);
    lock.unlock();
    for (const CellHandle& cell : returned) cell->set_error(Error{why});
    return;
  }
  in_flight_ += returned.size();
  for (CellHandle& cell : returned) held_.add_returned(std::move(cell));
}

// Under the mutex, with a link. Sends the calls whose arguments are complete, as long as the link has room.
void OutgoingCalls::send_held_back() {
  needs_room_ = false;
  if (held_.wait_for_next()) return;
  needs_room_ = !held_.send_ready([this] { return link_->queued() <= net::Link::kQueuedMax; },
                                  [this](CellHandle cell) { send_now(std::move(cell)); });
}

// No flush here: the thread that calls this writes what is sent (Link::Handler::on_room).
void OutgoingCalls::on_room() {
  const std::lock_guard lock{mutex_};
  if (link_ != nullptr && !why_lost_) send_held_back();
}

void OutgoingCalls::advance() {
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock{mutex_};
    if (link_ == nullptr || why_lost_) return;
    send_held_back();
    unflushed_bytes_ = 0;
    link = link_;
  }
  link->flush();
}

void OutgoingCalls::ask_back() {
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock{mutex_};
    link = link_;
  }
  if (link == nullptr) return;
  link->send(note(FrameKind::kGiveBack, 0), {});
  link->flush();
}

bool OutgoingCalls::cancel(ResultCell& cell) {
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock{mutex_};
    if (held_.remove(cell)) {
      --in_flight_;
      return true;
    }
    const auto number = sent_.number_of(cell);
    if (!number) return false;
    if (link_ == nullptr) return false;
    link_->send(note(FrameKind::kCancel, *number), {});
    link = link_;
  }
  link->flush();
  return false;
}

std::optional<OutgoingCalls::Place> OutgoingCalls::find(const ResultCell& cell) const {
  const std::lock_guard lock{mutex_};
  if (const auto number = sent_.number_of(cell)) return Place{true, *number};
  const bool unsent = std::find(entering_.begin(), entering_.end(), &cell) != entering_.end() || held_.contains(cell);
  return unsent ? std::optional{Place{}} : std::nullopt;
}

bool OutgoingCalls::awaits(std::uint64_t number) const {
  const std::lock_guard lock{mutex_};
  return sent_.has(number);
}

bool OutgoingCalls::refuses() const {
  const std::lock_guard lock{mutex_};
  return (link_ != nullptr && is_full()) || held_.bytes() > net::Link::kQueuedMax;
}

bool OutgoingCalls::send(CellHandle cell, WhenFull when_full) {
  const auto fail = [&cell](const Error& why) {
    cell->set_error(Error{why}.with_outcome(Outcome::kNotStarted));
    return true;
  };
  if (const std::size_t size = cell->arguments().size(); size > wire::kCallPayloadMax.bytes()) {
    return fail({ErrorCode::kInvalidArgument,
                 "the arguments take " + to_string(ByteCount{size}) + "; at most " + to_string(wire::kCallPayloadMax) +
                     " can be sent",
                 "Pass them in parts."});
  }
  std::unique_lock lock{mutex_};
  bool full = link_ != nullptr && is_full();
  if (when_full == WhenFull::kRefuse && (full || held_.bytes() > net::Link::kQueuedMax)) [[unlikely]]
    return false;
  if (full && when_full == WhenFull::kWait) [[unlikely]] {
    if (const auto why = wait_for_room(lock, *cell)) {
      lock.unlock();
      return fail(*why);
    }
    full = link_ != nullptr && is_full();
  }
  if (why_lost_) {
    const Error why = *why_lost_;
    lock.unlock();
    return fail(why);
  }
  if (in_flight() >= sender_.bounds.in_flight) {
    lock.unlock();
    if (when_full == WhenFull::kRefuse) return false;
    return fail({ErrorCode::kOverloaded,
                 std::to_string(sender_.bounds.in_flight) + " calls to this actor have not been answered",
                 "get() some of their results before calling again."});
  }
  const std::size_t before = in_flight_++;
  const bool waits = stands(Safeguard::kOrder) && !held_.empty() && !cell->call().unordered;
  if (link_ == nullptr || full || held_.wait_for_next() || waits || cell->call().awaits_arguments()) {
    needs_room_ = needs_room_ || full;
    held_.add(std::move(cell));
    return true;
  }
  const bool clean = unflushed_bytes_ == 0;
  unflushed_bytes_ += send_now(std::move(cell));
  // With nothing in flight the worker is idle, and should begin now. Otherwise more calls may come before the worker is
  // done with those that it has, and they can go in one write.
  if (before == 0 || unflushed_bytes_ >= kFlushBytes) {
    unflushed_bytes_ = 0;
    const auto link = link_;
    lock.unlock();
    link->flush();
    return true;
  }
  lock.unlock();
  if (clean) sender_.flush_queue->add(weak_from_this());
  return true;
}

// Called with the lock, which is released while this thread waits. Returns why the call fails, or nullopt if it may be
// sent or held back.
std::optional<Error> OutgoingCalls::wait_for_room(std::unique_lock<Mutex>& lock, ResultCell& cell) {
  entering_.push_back(&cell);
  lock.unlock();
  if (this_thread.calls_back != nullptr) Callbacks::give_up_turn();
  const WaitingThreads::Note note{cell.room().threads(), cell};
  const RunningCall* const running = RunningCall::of_this_thread();
  const Deadline deadline = cell.call().deadline;
  std::optional<Error> why;
  lock.lock();
  while (!why_lost_ && link_ != nullptr && is_full()) {
    const TimePoint now = sender_.clock->now();
    if (deadline.expired(now)) {
      why = Error{ErrorCode::kDeadlineExceeded, "the deadline of the call passed while the queue of its actor was full",
                  "Give the call a later deadline, or have fewer calls under way."}
                .with(readable_name(function_table()[cell.call().function].name()));
      break;
    }
    if (sender_.side == Side::kWorker && reads_no_more(now)) {
      if (held_.bytes() < sender_.bounds.held_bytes) break;
      why = Error{ErrorCode::kOverloaded,
                  to_string(ByteCount{held_.bytes() + link_->queued()}) +
                      " of calls wait for this actor, which has read none for " +
                      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kStuckTime).count()) + " s",
                  "get() some of their results before calling again; the actor may be waiting for this one."};
      break;
    }
    const auto link = link_;
    unflushed_bytes_ = 0;
    lock.unlock();
    if (running != nullptr && running->cancelled()) {
      why = actors::cancelled(cell.call().function);
    } else {
      link->flush();
      link->wait_for_room(net::Link::kQueuedMax, std::min(deadline, Deadline::after(kRoomTime, now)));
    }
    lock.lock();
    if (why) break;
  }
  std::erase(entering_, &cell);
  return why;
}

// Under the mutex, with a link. Returns whether the callee has read nothing for so long that it may be waiting for this
// process.
bool OutgoingCalls::reads_no_more(TimePoint now) {
  const std::uint64_t taken = progress_.given - link_->queued();
  if (taken != std::exchange(progress_.taken, taken)) progress_.taken_at = now;
  return now - progress_.taken_at >= (held_.bytes() < sender_.bounds.held_bytes ? kStillTime : kStuckTime);
}

void OutgoingCalls::flush() {
  // Without the mutex: a thread that has just queued bytes has also seen to it that they are flushed later.
  if (unflushed_bytes_.load(std::memory_order_relaxed) == 0) return;
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock{mutex_};
    if (unflushed_bytes_ == 0) return;
    unflushed_bytes_ = 0;
    link = link_;
  }
  if (link != nullptr) link->flush();
}

// Takes the cells that wait for these replies, in order; an empty handle for a reply that no cell waits for. Whoever
// then gets a result finds that its call is not in flight any more, and its worker free for the next one. But a call
// whose reply brings more than a value is in flight until that has been taken in: a reply may bring a handle of this
// very actor, which must not be let go meanwhile.
void OutgoingCalls::take_cells(net::FrameBatch frames, std::vector<CellHandle>& cells) {
  const std::lock_guard lock{mutex_};
  std::size_t answered = 0;
  while (!frames.empty()) {
    const wire::FrameView frame = frames.next();
    const bool is_reply = frame.header.kind == FrameKind::kReply;
    if (is_reply && (frame.header.flags & wire::kOneWay) != 0) {
      // These cells are completed later: what one keeps must not be destroyed under the mutex.
      answered += sent_.take_range(frame.header.acknowledged, frame.header.number, ran_);
      cells.emplace_back();
      continue;
    }
    cells.push_back(is_reply ? sent_.take(frame.header.number) : CellHandle{});
    if (cells.back() && is_result(frame.header) && !brings_more(frame.header)) ++answered;
    if (is_reply && callee_.comes_back()) {
      unacknowledged_.numbers.push_back(frame.header.number);
      unacknowledged_.bytes += frame.payload.size();
    }
  }
  in_flight_ -= answered;
  sent_.set_slow_aside(in_flight());
  const bool much =
      unacknowledged_.numbers.size() >= kUnacknowledgedMax || unacknowledged_.bytes >= kUnacknowledgedBytes;
  if (much && link_ != nullptr) acknowledge();
}

void OutgoingCalls::on_frames(net::FrameBatch frames, std::vector<Fd>) {
  answered_.clear();
  ran_.clear();
  take_cells(frames, answered_);
  for (const CellHandle& cell : ran_) {
    // Nobody looks at the other cells any more.
    if (!cell->call().deadline.is_never()) cell->set_value(std::span<const std::byte>{});
  }
  Duration execution{};
  std::size_t replies = ran_.size();
  std::size_t with_more = 0;
  std::vector<CellHandle> returned;
  bool takes_more = true;
  for (CellHandle& answered : answered_) {
    CellHandle cell = std::move(answered);  // released at the end of each round
    const wire::FrameView frame = frames.next();
    const bool is_more = brings_more(frame.header);
    if (!cell) {
      if (is_more) take_value(frame, {});
      continue;
    }
    switch (frame.header.status) {
      case wire::ReplyStatus::kOk:
        if (is_more) [[unlikely]] {
          take_value(frame, std::move(cell));
        } else {
          if (auto buffer = buffer_of(frame, frames)) {
            cell->set_value(Bytes{std::move(buffer), frame.payload}, {});
          } else {
            cell->set_value(frame.payload);
          }
        }
        break;
      case wire::ReplyStatus::kError: {
        Decoder decoder{frame.payload};
        take_error(Codec<Error>::decode(decoder), std::move(cell));
        break;
      }
      case wire::ReplyStatus::kTurnedAway: takes_more = false; [[fallthrough]];
      case wire::ReplyStatus::kReturned: returned.push_back(std::move(cell)); continue;
    }
    execution += Duration{frame.header.time};
    ++replies;
    if (is_more) ++with_more;
  }
  ran_.clear();
  const std::size_t left = in_flight_ -= with_more;
  const std::size_t given_back = returned.size();
  if (const auto observer = observer_.lock()) {
    if (replies != 0 || given_back == 0) observer->on_replies(*this, replies, execution, left);
    if (given_back != 0) observer->on_returned(*this, std::move(returned), takes_more);
  }
  // Only after on_returned(): calls that it has held for the next incarnation are counted again there, and must not be
  // missing from the count in between.
  in_flight_ -= given_back;
  flush();
}

void OutgoingCalls::take_error(Error error, CellHandle cell) {
  const auto observer = object_store::is_lost(error) ? observer_.lock() : nullptr;
  if (observer == nullptr || error.outcome() != Outcome::kNotStarted) return cell->set_error(std::move(error));
  observer->on_argument_lost(std::move(cell), error);
}

// Takes a value that carries handles of actors, or lies in the object store. `cell` is empty if no cell waits for it.
void OutgoingCalls::take_value(const wire::FrameView& reply, CellHandle cell) {
  std::span<const std::byte> payload = reply.payload;
  const std::uint64_t number = reply.header.number;
  detail::ActorHandles actors;
  if ((reply.header.flags & wire::kCarriesActors) != 0) {
    auto received = receive_actors(payload);
    if (!received) {
      if (cell) cell->set_error(std::move(received).error());
      return;
    }
    actors = *std::move(received);
  }
  if ((reply.header.flags & wire::kInPieces) == 0) {
    if (cell) cell->set_value(payload, std::move(actors));
    return acknowledge_later(number);
  }
  sender_.large_values->take(
      payload, [self = weak_from_this(), observer = observer_, number, cell = std::move(cell),
                actors = std::move(actors)](Result<std::shared_ptr<object_store::Object>> object) mutable {
        if (const auto link = self.lock()) link->acknowledge_later(number);
        if (!cell) return;
        const auto there = observer.lock();
        if (object && there != nullptr) {
          there->on_large_result(std::move(cell), *std::move(object), std::move(actors));
        } else if (object) {
          cell->set_object(*std::move(object), std::move(actors));
        } else if (there != nullptr && object_store::is_lost(object.error())) {
          there->on_result_lost(std::move(cell), object.error());
        } else {
          cell->set_error(std::move(object).error());
        }
      });
}

Result<detail::ActorHandles> OutgoingCalls::receive_actors(std::span<const std::byte>& payload) {
  PHAROS_TRY(const auto carried, read_carried(payload));
  detail::ActorHandles actors;
  if (const auto caller = sender_.receiver.lock()) {
    for (const CarriedActor& each : carried) actors.push_back(caller->receive(each));
  }
  return actors;
}

// Tells the worker that this caller has taken over what came with the reply. The worker then lets go of its own share,
// so this process's share must count before.
void OutgoingCalls::acknowledge_later(std::uint64_t number) {
  const auto caller = sender_.receiver.lock();
  if (caller == nullptr) return;
  caller->when_held([self = weak_from_this(), number] {
    if (const auto link = self.lock()) link->acknowledge_what_came_with(number);
  });
}

void OutgoingCalls::acknowledge_what_came_with(std::uint64_t number) {
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock{mutex_};
    link = link_;
    if (link != nullptr) link->send(note(FrameKind::kReceived, number), {});
  }
  if (link != nullptr) link->flush();
}

void OutgoingCalls::on_closed(Error) {
  {
    const std::lock_guard lock{mutex_};
    link_.reset();
    needs_room_ = false;
    if (std::exchange(awaits_link_, true)) return;
  }
  if (const auto observer = observer_.lock()) observer->on_disconnected(*this);
}

void OutgoingCalls::leave(std::uint32_t incarnation) {
  std::shared_ptr<net::Link> link;
  bool is_known = false;
  {
    const std::lock_guard lock{mutex_};
    if (link_ == nullptr || callee_.incarnation != incarnation) return;
    link = std::exchange(link_, nullptr);
    needs_room_ = false;
    is_known = std::exchange(awaits_link_, true);
  }
  link->drop();  // calls that have not arrived must not run there when the worker can be reached again
  const auto observer = observer_.lock();
  if (observer != nullptr && !is_known) observer->on_disconnected(*this);
}

// Under the mutex.
OutgoingCalls::Unanswered OutgoingCalls::take_unanswered() {
  Unanswered unanswered;
  unanswered.sent = sent_.take_all();
  unanswered.unsent = held_.take_all();
  raise(*sender_.numbers, sent_.next());
  needs_room_ = false;
  in_flight_ -= unanswered.sent.size() + unanswered.unsent.size();
  return unanswered;
}

OutgoingCalls::Unanswered OutgoingCalls::cut(const Error& why) {
  Unanswered unanswered;
  std::shared_ptr<net::Link> link;
  {
    const std::lock_guard lock{mutex_};
    if (why_lost_) return {};
    why_lost_ = why;
    lost_.store(true, std::memory_order_relaxed);
    unanswered = take_unanswered();
    link = link_;
  }
  if (link != nullptr) link->close();
  return unanswered;
}

void OutgoingCalls::lose(const Error& why) {
  fail(cut(why), why);
}

void OutgoingCalls::fail(const Error& why) {
  Unanswered unanswered;
  {
    const std::lock_guard lock{mutex_};
    if (link_ != nullptr) return;
    unanswered = take_unanswered();
  }
  fail(unanswered, why);
}

void OutgoingCalls::fail(const Unanswered& unanswered, const Error& why) {
  for (const CellHandle& cell : unanswered.sent) cell->set_error(Error{why}.with_outcome(Outcome::kUnknown));
  for (const CellHandle& cell : unanswered.unsent)
    cell->set_error(Error{why}.with_outcome(cell->call().outcome_unsent()));
}

}  // namespace pharos::actors
