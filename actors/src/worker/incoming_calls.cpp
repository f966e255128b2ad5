#include "worker/incoming_calls.hpp"

#include <chrono>
#include <cstring>
#include <string>

#include <pharos/actors/failpoints.hpp>
#include <pharos/base/log.hpp>
#include <pharos/wire/error_codec.hpp>

#include "caller/refused.hpp"
#include "program/function_table.hpp"
#include "results/pieces.hpp"
#include "worker/coroutine_call.hpp"
#include "worker/method_search.hpp"
#include "worker/running.hpp"

namespace pharos::actors {
namespace {

using detail::Function;
using detail::FunctionKind;
using wire::FrameHeader;
using wire::FrameKind;

constexpr std::size_t kQueuedBytes = 32 << 10;  // more queued replies are written at once
constexpr std::size_t kRepliesMax = 192 << 10;  // with more queued replies, no further call runs
// A look at the clock takes a fifth of a short one-way call, whose caller does not ask how long it took. So a running
// call may seem to have begun a few calls earlier.
constexpr unsigned kUntimedMax = 8;
const Function kMethodSearch{.tag = &typeid(SoughtMethod),
                             .kind = FunctionKind::kMethod};     // for its name and kind only
constexpr std::size_t kKeptRepliesMax = std::size_t{256} << 20;  // for a remote caller that acknowledges no replies

}  // namespace

// ---- Frames that come from the caller

// Looks at frames before their calls run, for four reasons: a cancellation must overtake the calls before it; objects
// of other nodes can be brought while earlier calls run; a deadline counts from the arrival of its call; and the
// retries of a call must be known before it begins.
IncomingCalls::Notes IncomingCalls::read_notes(net::FrameBatch frames, bool others_first) {
  Notes found;
  for (; !frames.empty(); others_first = true) {
    const wire::FrameView frame = frames.next();
    const FrameHeader& header = frame.header;
    if (others_first && serves_.remote && (header.flags & wire::kInPieces) != 0) [[unlikely]] {
      workplace_.caller()->large_values().look_ahead(frame.payload);
    }
    if (header.kind == FrameKind::kCancel) {
      notes_.note_cancel(header.number);
    } else if (header.kind == FrameKind::kRetry) {
      notes_.note_retries(header.number, {exception_types(header.function), header.attempt});
    } else if (header.kind == FrameKind::kReceived) {
      handed_over().let_go(header.number);
    } else if (header.kind == FrameKind::kGiveBack) {
      found.wants_tasks_back = !serves_.actor;
    } else if (header.kind == FrameKind::kCall) {
      if (header.time == 0) continue;
      notes_.note_deadline(header.number, Deadline::after(Duration{header.time}, workplace_.platform().now()));
    } else if (header.kind != FrameKind::kAcknowledge) {
      found.nonsense = header.kind;
      return found;
    }
  }
  return found;
}

void IncomingCalls::end_for_nonsense(FrameKind kind) {
  on_closed(Error{ErrorCode::kCorrupt, "a caller sent a frame of kind " + std::to_string(static_cast<int>(kind)) +
                                           ", which no caller sends; its connection is closed"});
}

void IncomingCalls::on_closed(Error why) {
  if (why.code() == ErrorCode::kCorrupt) log(LogLevel::kWarn, why.message());
  link_->close();
  owner_.forget(*this);
}

// The acknowledgements of a remote caller that makes no further calls.
void IncomingCalls::take_acknowledgement(const wire::FrameView& frame) {
  if (remote_ == nullptr) return;
  remote_->replies.acknowledge_below(frame.header.acknowledged);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= frame.payload.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t number = 0;
    std::memcpy(&number, frame.payload.data() + at, sizeof number);
    remote_->replies.acknowledge(number);
  }
}

// For a remote caller. Returns false for a call that has come before, and is not to be run.
bool IncomingCalls::take_account(const wire::FrameView& frame) {
  ReplyCache& replies = remote_->replies;
  replies.acknowledge_below(frame.header.acknowledged);
  switch (replies.arrive(frame.header)) {
    case ReplyCache::Arrival::kFirst: return true;
    case ReplyCache::Arrival::kUnderWay: return false;
    case ReplyCache::Arrival::kAnswered: {
      notes_.forget(frame.header.number);
      const ReplyCache::Reply& known = replies.reply_to(frame.header.number);
      out()->send(known.header, known.payload);
      flush_later();  // not at once: calls of other callers may follow on the strand
      return false;
    }
    case ReplyCache::Arrival::kForgotten: break;
  }
  const Error forgotten{
      ErrorCode::kUnavailable,
      "the caller was disconnected for so long that the worker no longer knows whether the call has run",
      "Call it again if it may run twice."};
  reply(frame.header, Error{forgotten}.with_outcome(Outcome::kUnknown), result_, {});
  flush_later();
  return false;
}

std::optional<IncomingCalls::Taken> IncomingCalls::take_next() {
  const auto lock = lock_batch();
  if (batch_.empty()) return std::nullopt;
  const wire::FrameView frame = batch_.next();
  return Taken{frame, buffer_of(frame, batch_)};
}

bool IncomingCalls::is_last() {
  const auto lock = lock_batch();
  return batch_.empty();
}

void IncomingCalls::run(net::FrameBatch batch, bool more_follow) {
  {
    const auto lock = lock_batch();
    batch_ = std::move(batch);
  }
  last_end_ = workplace_.platform().now();
  while (const auto taken = take_next()) {
    const wire::FrameView& frame = taken->frame;
    if (frame.header.kind != FrameKind::kCall) {
      if (frame.header.kind == FrameKind::kAcknowledge) take_acknowledgement(frame);
      continue;  // read_notes() has read the others
    }
    // Asked only once for each call, so that a call that is not turned away here either begins or is refused below.
    const bool stops = workplace_.stopping();
    if (stops && (!serves_.actor || workplace_.moves())) [[unlikely]] {
      give_back_frame(frame.header, wire::ReplyStatus::kTurnedAway);
      flush_later();
      continue;
    }
    if (remote_ != nullptr && !take_account(frame)) continue;
    const std::uint64_t number = frame.header.number;
    if (auto waits = run_one(*taken, stops)) {
      workplace_.strand().note_suspended();
      notes_.note_suspended(number, std::move(waits));
    } else {
      // The calls behind this one may take long, so the timer writes the reply if they do.
      if (more_follow || !is_last()) flush_later();
      notes_.forget(number);
    }
    notes_.note_begun(number);
  }
  {
    const auto lock = lock_batch();
    batch_ = {};
  }
  batches_waiting_.fetch_sub(1);
  link_->resume();
}

void IncomingCalls::conclude(const FrameHeader& call, const std::optional<Error>& error, Encoder& result,
                             bool more_follow) {
  reply(call, error, result, {});
  if (more_follow) flush_later();
  notes_.forget(call.number);
}

void IncomingCalls::block() {
  if (!workplace_.block()) return;
  give_back_rest();
  workplace_.strand().give_back_waiting();
}

// Returns why the call must not begin, or nullopt if it may.
std::optional<Error> IncomingCalls::refusal_of(const FrameHeader& header, bool stops) const {
  const auto functions = function_table();
  const bool finds_method = header.function == wire::kFindMethod;
  if (!finds_method && header.function >= functions.size()) {
    return Error{ErrorCode::kFunctionNotFound,
                 "the worker's executable has no function " + std::to_string(header.function) + "; it has " +
                     std::to_string(functions.size()),
                 "Caller and worker must be the same build."};
  }
  const Function& function = finds_method ? kMethodSearch : functions[header.function];
  const CallNotes::Note note = notes_.of(header.number);
  if (!note.deadline.is_never() && note.deadline.expired(workplace_.platform().now())) [[unlikely]] {
    return Error{ErrorCode::kDeadlineExceeded, "the deadline of the call passed before the call could begin",
                 "Give the call a later deadline, or have fewer calls under way."}
        .with(readable_name(function.name()));
  }
  if (note.cancelled) {
    return Error{ErrorCode::kCancelled, "the call was cancelled", kCallAgain}.with(readable_name(function.name()));
  }
  if (header.actor != serves_.actor.value() || header.incarnation != serves_.incarnation) {
    return Error{ErrorCode::kActorDied, "the call was for another actor or incarnation",
                 "Call it again: it has not begun."};
  }
  const FunctionKind expected = serves_.actor ? FunctionKind::kMethod : FunctionKind::kTask;
  if (function.kind != expected) {
    return Error{
        ErrorCode::kFunctionNotFound,
        readable_name(function.name()) +
            " is not a function of the kind that this worker runs: an actor runs methods, other workers run tasks",
        "Caller and worker must be the same build."};
  }
  if (serves_.actor && stops) {
    return Error{ErrorCode::kActorDied, "the actor is stopping and begins no further call",
                 "Spawn another actor if one is still needed."};
  }
  if (serves_.actor && workplace_.instance().object == nullptr) {
    return Error{ErrorCode::kFailedPrecondition, "the actor has not been constructed"};
  }
  return std::nullopt;
}

// Runs a call to its end and replies. A coroutine that waits is returned instead.
std::shared_ptr<CoroutineCall> IncomingCalls::run_one(const Taken& taken, bool stops) {
  const wire::FrameView& frame = taken.frame;
  const FrameHeader& header = frame.header;
  result_.clear();
  if (auto refusal = refusal_of(header, stops)) [[unlikely]] {
    // If the call was sent before, it may have begun in a process that is gone.
    const Outcome outcome = header.attempt == 0 ? Outcome::kNotStarted : Outcome::kUnknown;
    reply(header, std::move(*refusal).with_outcome(outcome), result_, {});
    return nullptr;
  }
  if (header.function == wire::kFindMethod) [[unlikely]] {
    reply(header, search_method(*workplace_.instance().constructor, header.flags, frame.payload, result_), result_, {});
    return nullptr;
  }
  const Function& function = function_table()[header.function];
  workplace_.note_begin(function, last_end_, serves_.caller, header.number, (header.flags & wire::kMayRunAgain) != 0);
  room_.for_result_of(function);
  if (function.begin != nullptr) {
    auto coroutine = std::make_shared<CoroutineCall>(workplace_, shared_from_this(), header, function);
    coroutine->begin(frame.payload, taken.buffer);
    workplace_.note_end();
    if (!coroutine->ended()) return coroutine;
    reply(header, coroutine->error(), coroutine->result(), {});
    return nullptr;
  }
  Running running{workplace_, function, this, header.number, TraceId{header.trace}, !serves_.actor, header.attempt};
  const auto error = running.run(function, workplace_.instance().object, header.flags, frame.payload, taken.buffer,
                                 result_, retries_of(header.number));
  workplace_.end_if_child();
  workplace_.note_end();
  if ((header.flags & wire::kOneWay) != 0 && ++untimed_ % kUntimedMax != 0) {
    reply(header, error, result_, {});
    return nullptr;
  }
  const TimePoint end = workplace_.platform().now();
  reply(header, error, result_, end - std::exchange(last_end_, end));
  return nullptr;
}

void IncomingCalls::give_back_frames(net::FrameBatch& batch) {
  while (!batch.empty()) {
    const FrameHeader& header = batch.next().header;
    if (header.kind == FrameKind::kCall) give_back_frame(header);
  }
}

void IncomingCalls::give_back_frame(FrameHeader header, wire::ReplyStatus status) {
  notes_.forget(header.number);
  header.kind = FrameKind::kReply;
  header.flags = wire::kNoFlags;
  header.status = status;
  link_->send(header, {});
}

// ---- Frames that go to the caller

void IncomingCalls::reply(const FrameHeader& call, const std::optional<Error>& error, Encoder& result,
                          Duration execution) {
  // With the reply the caller lets go of the handles that came as arguments.
  workplace_.caller()->actors().wait_until_held();
  if ((call.flags & wire::kOneWay) != 0 && !error && remote_ == nullptr) {
    result.clear();
    result.context()->clear();
    return ran_.note(*link_, call, execution);
  }
  FrameHeader header = call;
  header.kind = FrameKind::kReply;
  header.flags = wire::kNoFlags;
  header.time = execution.count();
  if (error) {
    result.clear();
    result.context()->clear();
    Codec<Error>::encode(*error, result);
    header.status = wire::ReplyStatus::kError;
  }
  if (result.failed()) return reply(call, not_encoded("the result", result), result, execution);
  if (!result.in_room() && result.size() > wire::kCallPayloadMax.bytes()) {
    return reply_too_large(call, result, execution);
  }
  if (result.in_room() || !result.context()->actors.empty()) {
    reply_with_more(header, result);
  } else if (result.has_shared()) {
    send(header, result.flattened());
  } else {
    send(header, result.bytes());
  }
}

// Sends a result that carries handles of actors or lies in the object store. The payload begins with the list of these
// actors, and has the place of the object instead of its bytes. A caller on this node owns the object from now on. For
// a caller on another node this process keeps the object until the caller has confirmed that it has its own share.
void IncomingCalls::reply_with_more(FrameHeader header, const Encoder& result) {
  Encoder payload;
  HandedOver::Kept kept;
  if (auto actors = std::exchange(result.context()->actors, {}); !actors.empty()) {
    // The receiver may end this process, by letting go of its actor. By then the node must know of the actors that were
    // made here.
    workplace_.caller()->line().finish_telling();
    header.flags |= wire::kCarriesActors;
    write_carried(actors, payload);
    kept.actors = std::move(actors);
  }
  if (!result.in_room()) {
    handed_over().keep(header.number, std::move(kept));
    const auto bytes = result.flattened();
    payload.write(bytes.data(), bytes.size());
    send(header, payload.bytes());
    return;
  }
  const auto object = room_of(result).seal();
  const Piece whole{0, object->location(), 0, object->size()};
  write_pieces({&whole, 1}, {}, payload);
  header.flags |= wire::kInPieces;
  if (serves_.remote) kept.object = object;
  if (kept.object != nullptr || !kept.actors.empty()) handed_over().keep(header.number, std::move(kept));
  if (!send(header, payload.bytes())) return;
  failpoint(actors::failpoints::kResultSent);
  if (!serves_.remote) object->hand_over();
}

void IncomingCalls::reply_too_large(const FrameHeader& call, Encoder& result, Duration execution) {
  const ByteCount size{result.size()};
  reply(call,
        Error{ErrorCode::kInvalidArgument,
              "the result takes " + to_string(size) + "; at most " + to_string(wire::kCallPayloadMax) + " can be sent",
              "Return it in parts."},
        result, execution);
}

// Sends or keeps a reply. Returns false if the caller will never get it.
bool IncomingCalls::send(const FrameHeader& header, std::span<const std::byte> payload) {
  if (remote_ == nullptr) {
    const bool sent = link_->send(header, payload);
    if (link_->queued() > kQueuedBytes) link_->flush();
    // A caller that does not read its replies stops the strand here, so that replies do not pile up in memory.
    if (link_->queued() > kRepliesMax) link_->wait_for_room(kRepliesMax, Deadline::never());
    return sent;
  }
  remote_->replies.answer(header, payload);
  const auto link = remote_->link();
  if (remote_->replies.bytes() > kKeptRepliesMax && remote_->replies.size() > 1) {
    log(LogLevel::kError, "a caller acknowledges no replies; its connection is closed",
        {kv("caller", remote_->id), kv("kept", ByteCount{remote_->replies.bytes()})});
    remote_->replies.forget();
    link->close();
    return false;
  }
  link->send(header, payload);
  if (link->queued() > kQueuedBytes) link->flush();
  if (link->queued() > kRepliesMax) link->wait_for_room(kRepliesMax, Deadline::never());
  return true;
}

}  // namespace pharos::actors
