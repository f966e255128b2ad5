#include "calls.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/async/outermost.hpp>
#include <pharos/base/log.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/wire/error_codec.hpp>

#include "call_marks.hpp"
#include "carried_actors.hpp"
#include "function_table.hpp"
#include "large_values.hpp"
#include "refused.hpp"
#include "reply_cache.hpp"
#include "running_call.hpp"
#include "thrower.hpp"
#include "thrown.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Function;
using detail::FunctionKind;
using wire::FrameHeader;
using wire::FrameKind;

constexpr Duration kPatience = 200us;  // that a task waits before it gives its CPU away
constexpr auto kBusyTime = 100ms;      // for a call that runs when the worker is told to end
constexpr Duration kFlushDelayMax = 50us;
constexpr std::size_t kFlushBytes = 32 << 10;
constexpr std::size_t kRepliesMax = 192 << 10;
constexpr auto kReturnTime = 60s;  // a remote caller that is cut off is dead for all others well before
constexpr std::size_t kKeptRepliesMax = std::size_t{256} << 20;  // of a remote caller that acknowledges none
constexpr std::size_t kBatchesMax = 8;  // of one caller, a read buffer each, that wait to be run

/// Runs one call; what it throws is an error that names the function. `again`, if there is `retry_on`, becomes whether
/// it is of these types. (A forced unwinding has no exception object, which the sanitizer takes for a mistake.)
template <class Call>
__attribute__((no_sanitize("null"))) std::optional<Error> guarded(const Function& function, const Call& call,
                                                                  const Function* retry_on = nullptr,
                                                                  bool* again = nullptr) {
  try {
    call();
    return std::nullopt;
  } catch (const Thrower&) {
    PHAROS_CHECK(false);
  } catch (const abi::__forced_unwind&) {
    // pthread_exit() or a cancelled thread: the unwinding cannot be stopped, and without its thread the worker is none.
    log(LogLevel::kError, "a function ended its thread; the worker ends",
        {kv("function", readable_name(function.name()))});
    ::_exit(1);
  } catch (const BadArguments& e) {
    return e.error();
  } catch (...) {
    if (retry_on != nullptr) *again = retry_on->handles();
    return error_of_call(function);
  }
}

/// Null: these are no types.
const Function* exception_types(std::uint32_t index) {
  const auto functions = function_table();
  const bool are_types = index < functions.size() && functions[index].kind == FunctionKind::kExceptionTypes;
  return are_types ? &functions[index] : nullptr;
}

}  // namespace

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
    result_.set_large_room(room_for(room_));
    result_.set_context(&carried_);
  }
  /// A caller on another machine does not reach this one's object store.
  LargeRoom* room_for(ObjectRoom& room) const { return serves_.remote ? nullptr : &room; }

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
  const wire::Holding& holding() const { return serves_.holding; }

  bool wants_more() override { return batches_waiting_.load() < kBatchesMax; }
  void on_frames(net::FrameBatch frames, std::vector<Fd>) override {
    note_marks(frames);
    batches_waiting_.fetch_add(1);
    calls_.strand().push(shared_from_this(), std::move(frames));
    // Whoever blocks gives back what it finds; this, what comes later.
    if (calls_.blocked()) calls_.strand().give_back_waiting();
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

  // Defined below CoroutineCall.
  void run(net::FrameBatch batch, bool more_follow) override;
  void conclude(CoroutineCall& call, bool more_follow);

  void on_drained() override { out()->flush(); }

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
  /// What came together with the call that runs, and waits behind it. On the thread that runs it.
  void give_back_rest() {
    link_->flush();
    give_back_frames(batch_);
    link_->flush();
  }

 private:
  // Cancels overtake the calls that they came behind; the time that a call has left begins now; and what it is run
  // again for is known before it begins.
  void note_marks(net::FrameBatch frames) {
    while (!frames.empty()) {
      const FrameHeader header = frames.next().header;
      if (header.kind == FrameKind::kCancel) {
        marks_.note_cancel(header.number);
      } else if (header.kind == FrameKind::kRetry) {
        marks_.note_retries(header.number, {exception_types(header.function), header.attempt});
      } else if (header.kind == FrameKind::kReceived) {
        handed_over().let_go(header.number);
      } else if (header.time != 0) {
        marks_.note_deadline(header.number, Deadline::after(Duration{header.time}, calls_.platform().now()));
      }
    }
  }
  /// Says something about a call, and is none.
  static bool is_note(FrameKind kind) {
    return kind == FrameKind::kCancel || kind == FrameKind::kRetry || kind == FrameKind::kReceived;
  }

  void give_back_frames(net::FrameBatch& batch) {
    while (!batch.empty()) {
      FrameHeader header = batch.next().header;
      if (is_note(header.kind)) continue;
      marks_.forget(header.number);
      header.kind = FrameKind::kReply;
      header.status = wire::ReplyStatus::kReturned;
      link_->send(header, {});
    }
  }

  std::optional<Error> refusal_of(const FrameHeader& header) const;
  std::shared_ptr<CoroutineCall> run_one(const wire::FrameView& frame);
  void flush_later() {
    if (!unflushed_.exchange(true)) calls_.flush_queue().add(weak_from_this());
  }

  // Of a remote caller: false for what is not to be run, because it has come before or is no call.
  bool take_account(const wire::FrameView& frame) {
    ReplyCache& replies = remote_->replies;
    replies.acknowledge_below(frame.header.acknowledged);
    if (frame.header.kind == FrameKind::kAcknowledge) {
      for (std::size_t at = 0; at + sizeof(std::uint64_t) <= frame.payload.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t number = 0;
        std::memcpy(&number, frame.payload.data() + at, sizeof number);
        replies.acknowledge(number);
      }
      return false;
    }
    switch (replies.arrive(frame.header)) {
      case ReplyCache::Arrival::kFirst: return true;
      case ReplyCache::Arrival::kUnderWay: return false;
      case ReplyCache::Arrival::kAnswered: {
        marks_.forget(frame.header.number);
        const ReplyCache::Reply& known = replies.reply_to(frame.header.number);
        out()->send(known.header, known.payload);
        return false;
      }
      case ReplyCache::Arrival::kForgotten: break;
    }
    const Error forgotten{ErrorCode::kUnavailable,
                          "its caller was cut off for so long that what became of the call is forgotten",
                          "Call it again if it may run twice."};
    reply(frame.header, Error{forgotten}.with_outcome(Outcome::kUnknown), result_, {});
    return false;
  }

  // Where replies go: a remote caller may have come back by another connection than the one that brought the call.
  std::shared_ptr<net::Link> out() const { return remote_ == nullptr ? link_ : remote_->link(); }

  // False when nobody will get it.
  bool send(const FrameHeader& header, std::span<const std::byte> payload) {
    if (remote_ == nullptr) {
      const bool sent = link_->send(header, payload);
      if (link_->queued() > kFlushBytes) link_->flush();
      // A caller that does not read gets no more results until it does.
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
    if (link->queued() > kFlushBytes) link->flush();
    if (link->queued() > kRepliesMax) link->wait_for_room(kRepliesMax, Deadline::never());
    return true;
  }

  void reply(const FrameHeader& call, const std::optional<Error>& error, Encoder& result, Duration execution) {
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

  // The payload begins with the actors that the value has handles of, and says where it lies if that is elsewhere: the
  // object is the caller's from now on.
  void reply_with_more(FrameHeader header, const Encoder& result) {
    Encoder payload;
    if (auto actors = std::exchange(result.context()->actors, {}); !actors.empty()) {
      // Whoever receives them may end this process, and the node must know by then of those that were made here.
      calls_.caller()->finish_telling_node();
      header.flags |= wire::kCarriesActors;
      write_carried(actors, payload);
      handed_over().keep(header.number, std::move(actors));
    }
    if (!result.in_room()) {
      const auto bytes = result.flattened();
      payload.write(bytes.data(), bytes.size());
      send(header, payload.bytes());
      return;
    }
    const auto object = room_of(result).seal();
    const Piece whole{0, object->location(), 0, object->bytes().size()};
    write_pieces({&whole, 1}, {}, payload);
    header.flags |= wire::kInPieces;
    if (send(header, payload.bytes())) object->hand_over();
  }
  HandedOver& handed_over() { return remote_ == nullptr ? handed_over_ : remote_->handed_over; }

  void reply_too_large(const FrameHeader& call, Encoder& result, Duration execution) {
    const ByteCount size{result.size()};
    reply(call,
          Error{ErrorCode::kInvalidArgument,
                "the result has " + to_string(size) + "; at most " + to_string(wire::kCallPayloadMax) + " can travel",
                "Return it in parts."},
          result, execution);
  }

  Calls& calls_;
  const wire::ServeCaller serves_;
  const std::shared_ptr<RemoteCaller> remote_;
  std::shared_ptr<net::Link> link_;
  std::atomic<std::size_t> batches_waiting_ = 0;
  std::atomic<bool> unflushed_ = false;  // a reply waits for the timer
  CallMarks own_marks_;
  CallMarks& marks_;  // of a remote caller, whichever connection they came by
  // The strand's.
  net::FrameBatch batch_;  // what is left of the one that is being run
  TimePoint last_end_;     // of the last call in it
  RoomIn room_;
  CodecContext carried_;
  Encoder result_;
  HandedOver handed_over_;  // to a caller on this machine
};

namespace {

/// As long as this lives, its thread runs user code, of this call.
struct UserCode {
  UserCode(RunningCall& call, Platform& platform) : scope{call}, detour{platform} {}
  const RunningCall::Scope scope;
  const Platform::Detour detour;
};

/// A call that runs, or is suspended.
class Running final : public RunningCall {
 public:
  /// `link`: what the call came with; a constructor came with none.
  Running(Calls& calls, const Function& function, CallerLink* link, std::uint64_t number, TraceId trace, bool is_task,
          std::uint32_t attempt = 0)
      : RunningCall{function.name(), function.begin != nullptr},
        calls_{calls},
        link_{link},
        number_{number},
        trace_{trace},
        is_task_{is_task},
        attempt_{attempt} {}

  /// It has failed with what it may be run again for: false if not once more.
  bool may_run_again(const Retries& retries) {
    const bool may = attempt_ < retries.max && !cancelled() && !deadline().expired(calls_.platform().now());
    if (may) ++attempt_;
    return may;
  }
  /// Runs it, at once again as long as it may be. Not for a coroutine.
  std::optional<Error> run(const Function& function, void* object, std::uint8_t flags,
                           std::span<const std::byte> payload, const std::shared_ptr<const void>& buffer,
                           Encoder& result, const Retries& retries) {
    const UserCode inside{*this, calls_.platform()};
    const auto call = [&] {
      const Arrived arrived{calls_.caller()->large_values(), flags, payload, buffer};
      Decoder arguments = arrived.decoder();
      function.call(object, arguments, result);
    };
    if (retries.types == nullptr) [[likely]]
      return guarded(function, call);
    for (;;) {
      bool again = false;
      auto error = guarded(function, call, retries.types, &again);
      if (!error || !again || !may_run_again(retries)) return error;
      result.clear();
    }
  }

  void wait(detail::ResultCell& cell, async::Deadline deadline) override {
    if (run_instead(cell)) return;
    cell.park(std::min(deadline, async::Deadline::after(kPatience, calls_.platform().now())));
    if (cell.ready() || deadline.expired(calls_.platform().now())) return;
    if (is_task_) calls_.block(*link_);
    // Looks up now and then: the task may come back to this worker's own pool, from a worker that does not run it after
    // all; and this call may be cancelled.
    for (Duration slice = 1ms; !cell.ready() && !deadline.expired(calls_.platform().now());
         slice = std::min<Duration>(2 * slice, 64ms)) {
      if (run_instead(cell)) break;
      if (cancelled()) {
        cell.cancel();
        break;
      }
      cell.park(std::min(deadline, async::Deadline::after(slice, calls_.platform().now())));
    }
    if (is_task_) calls_.unblock();
  }
  bool cancelled() const override {
    if (in_place_of_ != nullptr && in_place_of_->cancelled()) return true;
    return link_ != nullptr && link_->cancelled(number_);
  }
  TraceId trace() const override { return trace_; }
  Deadline deadline() const override {
    if (in_place_of_ != nullptr) return in_place_of_->call().deadline;
    return link_ == nullptr ? Deadline::never() : link_->deadline_of(number_);
  }
  Context context() const override {
    static const Instance kNone{};
    const bool is_actors = !is_task_ && in_place_of_ == nullptr;
    const Instance& instance = is_actors ? calls_.instance() : kNone;
    const wire::Holding& held = is_task_ ? link_->holding() : calls_.instance().holding;
    std::map<std::string, double> amounts;
    for (const auto& [name, amount] : held.amounts) {
      amounts.emplace(name, static_cast<double>(amount) / scheduler::Resources::kWhole);
    }
    const auto cpus = amounts.extract("cpu");
    amounts.erase("gpu");  // they are named
    return {.job = calls_.caller()->job(),
            .node = calls_.caller()->node(),
            .worker = calls_.worker(),
            .actor = instance.actor,
            .incarnation = instance.incarnation,
            .restarted = instance.incarnation > 1,
            .name_space = is_actors ? instance.name_space : to_string(calls_.caller()->job()),
            .attempt = attempt_,
            .trace = trace_,
            .deadline = deadline(),
            .cpus = cpus.empty() ? 0 : cpus.mapped(),
            .gpus = held.gpus,
            .resources = std::move(amounts)};
  }

 private:
  // A task for which there will be no worker soon is run by the one who waits for it.
  bool run_instead(detail::ResultCell& cell) {
    if (!calls_.caller()->take_back(cell)) return false;
    const auto& call = cell.call();
    Retries retries;
    if (call.retry_on != 0) retries = {exception_types(call.retry_on - 1), call.max_retries};
    RoomIn room{calls_.caller()->large_values()};
    CodecContext carried;
    Encoder result;
    result.set_large_room(&room);
    result.set_context(&carried);
    const Function& function = function_table()[call.function];
    Running running{calls_, function, link_, number_, call.trace, is_task_, call.attempt};
    running.in_place_of_ = &cell;
    auto error = running.run(function, nullptr, call.flags, cell.arguments(), nullptr, result, retries);
    calls_.end_if_child();
    if (error) {
      cell.set_error(std::move(*error));
    } else if (result.failed()) {
      cell.set_error(not_encoded("the result", result));
    } else if (result.in_room()) {
      cell.set_object(room.seal(), std::move(carried.actors));
    } else {
      cell.set_value(result, std::move(carried.actors));
    }
    return true;
  }

  Calls& calls_;
  CallerLink* const link_;
  const std::uint64_t number_;  // of the call that came with the link; what runs inside of it is cancelled with it
  const TraceId trace_;
  const bool is_task_;
  std::uint32_t attempt_;
  detail::ResultCell* in_place_of_ = nullptr;  // a worker that would have run this task
};

}  // namespace

/// A call of a method that is a coroutine, from its beginning to its end. It is its own executor, so that whatever runs
/// on it takes its turn among the calls, and runs as this call. Owned by whoever runs it, and by its link while it is
/// suspended. On the strand, but for cancel(), and what an executor does on any thread.
class CoroutineCall final : public async::Executor,
                            public SuspendedCall,
                            public std::enable_shared_from_this<CoroutineCall> {
 public:
  CoroutineCall(Calls& calls, std::shared_ptr<CallerLink> link, const FrameHeader& header, const Function& function)
      : header_{header},
        calls_{calls},
        link_{std::move(link)},
        function_{function},
        retries_{link_->retries_of(header.number)},
        running_(calls, function, link_.get(), header.number, TraceId{header.trace}, false, header.attempt),
        room_{calls.caller()->large_values(), CallerId{header.caller}} {
    result_.set_large_room(link_->room_for(room_));
    result_.set_context(&carried_);
  }

  /// Runs it to its first wait, or its end.
  void begin(std::span<const std::byte> arguments, std::shared_ptr<const void> buffer) {
    if (retries_.types != nullptr) arguments_.assign(arguments.begin(), arguments.end());
    const UserCode inside{running_, calls_.platform()};
    begin_body(arguments, std::move(buffer));
    calls_.end_if_child();
  }

  bool ended() const { return ended_; }
  const FrameHeader& header() const { return header_; }
  const std::optional<Error>& error() const { return error_; }
  Encoder& result() { return result_; }

  void cancel_wait() override {
    cancelled_.store(true);
    post([this] { body_->cancel_wait(); });
  }

  void post(async::Callback work) override {
    calls_.executor().push(std::make_shared<Slice>(shared_from_this(), std::move(work)));
  }
  TimePoint now() const override { return calls_.executor().now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override {
    return calls_.platform().executor().run_at(
        when, [self = shared_from_this(), work = std::move(work)]() mutable { self->post(std::move(work)); });
  }
  bool cancel(async::TimerId timer) override { return calls_.platform().executor().cancel(timer); }

 private:
  class Body final : public async::detail::Outermost {
   public:
    Body(CoroutineCall& call, async::Async<void> coroutine)
        : Outermost{call, call.cancelled_, std::move(coroutine)}, call_{call} {}

   private:
    void ended() override {
      bool again = false;
      call_.error_ = guarded(
          call_.function_, [this] { take(); }, call_.retries_.types, &again);
      if (again && call_.running_.may_run_again(call_.retries_)) {
        call_.post([call = &call_] { call->begin_body(call->arguments_, nullptr); });
      } else {
        call_.ended_ = true;
      }
    }
    CoroutineCall& call_;
  };

  // Inside of the call.
  void begin_body(std::span<const std::byte> bytes, std::shared_ptr<const void> buffer) {
    std::optional<Arrived> arrived;
    error_ = guarded(
        function_, [&] { arrived.emplace(calls_.caller()->large_values(), header_.flags, bytes, std::move(buffer)); });
    if (error_) {
      ended_ = true;
      return;
    }
    Decoder arguments = arrived->decoder();
    result_.clear();
    body_.emplace(*this, function_.begin(calls_.instance().object, &arguments, &result_));
    body_->start();
    body_->run();
  }

  /// From one wait to the next.
  class Slice final : public Strand::Runner {
   public:
    Slice(std::shared_ptr<CoroutineCall> call, async::Callback work) : call_{std::move(call)}, work_{std::move(work)} {}

    void run(net::FrameBatch, bool more_follow) override {
      {
        const UserCode inside{call_->running_, call_->calls_.platform()};
        std::exchange(work_, {})();
      }
      call_->calls_.end_if_child();
      if (call_->ended_ && !std::exchange(call_->concluded_, true)) call_->link_->conclude(*call_, more_follow);
    }
    void give_back(net::FrameBatch) override {}
    void on_drained() override { call_->link_->on_drained(); }

   private:
    const std::shared_ptr<CoroutineCall> call_;
    async::Callback work_;
  };

  const FrameHeader header_;
  Calls& calls_;
  const std::shared_ptr<CallerLink> link_;
  const Function& function_;
  const Retries retries_;
  std::vector<std::byte> arguments_;  // kept where it may be run again
  Running running_;
  RoomIn room_;
  CodecContext carried_;
  Encoder result_;
  std::atomic<bool> cancelled_ = false;
  std::optional<Error> error_;
  bool ended_ = false;
  bool concluded_ = false;
  std::optional<Body> body_;  // its frames use what is above
};

void CallerLink::run(net::FrameBatch batch, bool more_follow) {
  batch_ = std::move(batch);
  last_end_ = calls_.platform().now();
  while (!batch_.empty()) {
    const wire::FrameView frame = batch_.next();
    if (is_note(frame.header.kind)) continue;
    if (remote_ != nullptr && !take_account(frame)) continue;
    const std::uint64_t number = frame.header.number;
    if (auto waits = run_one(frame)) {
      marks_.note_suspended(number, std::move(waits));
    } else {
      // It must not wait until the calls behind it are done, however long they take: then the timer writes it.
      if (more_follow || !batch_.empty()) flush_later();
      marks_.forget(number);
    }
    marks_.note_begun(number);
  }
  batch_ = {};
  batches_waiting_.fetch_sub(1);
  link_->resume();
}

void CallerLink::conclude(CoroutineCall& call, bool more_follow) {
  reply(call.header(), call.error(), call.result(), {});
  if (more_follow) flush_later();
  marks_.forget(call.header().number);
}

// Why the call does not begin.
std::optional<Error> CallerLink::refusal_of(const FrameHeader& header) const {
  const auto functions = function_table();
  if (header.function >= functions.size()) {
    return Error{ErrorCode::kFunctionNotFound,
                 "the worker's executable has no function " + std::to_string(header.function) + "; it has " +
                     std::to_string(functions.size()),
                 "Caller and worker must be the same build."};
  }
  const Function& function = functions[header.function];
  const CallMarks::Mark mark = marks_.of(header.number);
  if (!mark.deadline.is_never() && mark.deadline.expired(calls_.platform().now())) [[unlikely]] {
    return Error{ErrorCode::kDeadlineExceeded, "its deadline passed before it could begin",
                 "Give it a later one, or have less under way before it."}
        .with(readable_name(function.name()));
  }
  if (mark.cancelled) {
    return Error{ErrorCode::kCancelled, "the call was cancelled", kCallAgain}.with(readable_name(function.name()));
  }
  if (header.actor != serves_.actor.value() || header.incarnation != serves_.incarnation) {
    return Error{ErrorCode::kActorDied, "the call was for another actor or incarnation",
                 "Call it again: it has not begun."};
  }
  const FunctionKind expected = serves_.actor ? FunctionKind::kMethod : FunctionKind::kTask;
  if (header.kind != FrameKind::kCall || function.kind != expected) {
    return Error{ErrorCode::kFunctionNotFound, readable_name(function.name()) + " cannot be called that way",
                 "Caller and worker must be the same build."};
  }
  if (serves_.actor && calls_.instance().object == nullptr) {
    return Error{ErrorCode::kFailedPrecondition, "the actor has not been constructed"};
  }
  return std::nullopt;
}

// Runs it, or a coroutine to its first wait; that is returned if it waits.
std::shared_ptr<CoroutineCall> CallerLink::run_one(const wire::FrameView& frame) {
  const FrameHeader& header = frame.header;
  result_.clear();
  if (auto refusal = refusal_of(header)) [[unlikely]] {
    // An earlier sending may have begun, in a process that is gone.
    const Outcome outcome = header.attempt == 0 ? Outcome::kNotStarted : Outcome::kUnknown;
    reply(header, std::move(*refusal).with_outcome(outcome), result_, {});
    return nullptr;
  }
  const Function& function = function_table()[header.function];
  calls_.note_begin(function, last_end_, serves_.caller, header.number);
  if (function.begin != nullptr) {
    auto coroutine = std::make_shared<CoroutineCall>(calls_, shared_from_this(), header, function);
    coroutine->begin(frame.payload, buffer_of(frame, batch_));
    calls_.note_end();
    if (!coroutine->ended()) return coroutine;
    reply(header, coroutine->error(), coroutine->result(), {});
    return nullptr;
  }
  Running running{calls_, function, this, header.number, TraceId{header.trace}, !serves_.actor, header.attempt};
  const auto error = running.run(function, calls_.instance().object, header.flags, frame.payload,
                                 buffer_of(frame, batch_), result_, retries_of(header.number));
  calls_.end_if_child();
  calls_.note_end();
  const TimePoint end = calls_.platform().now();
  reply(header, error, result_, end - std::exchange(last_end_, end));
  return nullptr;
}

Calls::Calls(const std::shared_ptr<Platform>& platform)
    : platform_{platform},
      flush_queue_{FlushQueue::make(*platform, kFlushDelayMax)},
      caller_{detail::Caller::make(platform, flush_queue_)},
      executor_{*platform, strand_} {}

void Calls::on_node_message(const std::shared_ptr<net::Peer>& node, net::Parcel parcel) {
  if (const auto* const caller = std::get_if<wire::ServeCaller>(&parcel.message)) {
    serve(*caller, std::move(parcel.descriptors.front()));
  } else if (const auto* const registered = std::get_if<wire::JobRegistered>(&parcel.message)) {
    join(node, *registered);
  } else if (auto* const actor = std::get_if<wire::ConstructActor>(&parcel.message)) {
    construct(std::move(*actor));
  } else {
    caller_->on_node_message(parcel.message);
  }
}

void Calls::join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
  node_ = node;
  worker_ = WorkerId{registered.caller.value()};  // a worker calls by its own number
  caller_->join(std::move(node), registered);
}

bool Calls::stop() {
  async::Executor& executor = platform_->executor();
  if (!strand_.stop(executor, async::Deadline::after(kBusyTime, executor))) return false;
  instance_.destroy();
  return true;
}

std::optional<Error> Calls::run_constructor(const wire::ConstructActor& actor) {
  const auto functions = function_table();
  if (actor.constructor >= functions.size() || functions[actor.constructor].kind != FunctionKind::kConstructor) {
    return Error{ErrorCode::kFunctionNotFound, "the worker's executable does not have the actor's constructor",
                 "Caller and worker must be the same build."};
  }
  const Function& constructor = functions[actor.constructor];
  instance_.constructor = &constructor;
  instance_.actor = actor.actor;
  instance_.incarnation = actor.incarnation;
  instance_.name_space = actor.name_space;
  instance_.holding = actor.holding;
  note_begin(constructor, platform_->now(), CallerId{}, 0);
  Running running{*this, constructor, nullptr, 0, actor.trace, false};
  const UserCode inside{running, *platform_};
  const auto error = guarded(constructor, [&] {
    const std::uint8_t flags = actor.in_pieces ? wire::kInPieces : wire::kNoFlags;
    const Arrived arrived{caller_->large_values(), flags, actor.arguments, nullptr};
    Decoder arguments = arrived.decoder();
    instance_.object = constructor.construct(arguments);
  });
  end_if_child();
  note_end();
  if (!error) return std::nullopt;
  Error died =
      Error{ErrorCode::kActorDied, "the actor's constructor failed: " + error->story(), error->remedy()}.with_outcome(
          Outcome::kNotStarted);
  return error->thrown() ? std::move(died).with_thrown(*error->thrown()) : died;
}

void Calls::construct(wire::ConstructActor actor) {
  executor_.post([this, actor = std::move(actor)] {
    node_->send(wire::ActorConstructed{actor.actor, actor.incarnation, run_constructor(actor)});
  });
}

void Calls::serve(wire::ServeCaller caller, Fd socket) {
  std::shared_ptr<CallerLink> link;
  {
    const std::lock_guard lock{links_mutex_};
    std::shared_ptr<RemoteCaller> remote;
    if (caller.remote && caller.actor) {
      auto& there = remote_callers_[caller.caller];
      if (there == nullptr) {
        const auto forgotten = forgotten_callers_.extract(caller.caller);
        there = std::make_shared<RemoteCaller>(caller.caller, forgotten.empty() ? 0 : forgotten.mapped());
      }
      remote = there;
    }
    link = std::make_shared<CallerLink>(*this, caller, std::move(remote));
    links_.push_back(link);
  }
  link->start(platform_->make_call_link(std::move(socket)));
}

void Calls::forget(const CallerLink& link) {
  std::shared_ptr<CallerLink> forgotten;  // goes after the lock
  const std::lock_guard lock{links_mutex_};
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& each) { return each.get() == &link; });
  if (found == links_.end()) return;
  forgotten = std::move(*found);
  links_.erase(found);
  const auto& remote = link.remote();
  if (remote == nullptr) return forgotten->marks().cancel_suspended();
  remote->last_here = platform_->now();
  platform_->executor().run_at(remote->last_here + kReturnTime,
                               [this, remote] { executor_.post([this, remote] { forget_if_away(remote); }); });
}

// On the strand. Whatever it still asks for has come before.
void Calls::forget_if_away(const std::shared_ptr<RemoteCaller>& caller) {
  {
    const std::lock_guard lock{links_mutex_};
    const bool here =
        std::any_of(links_.begin(), links_.end(), [&](const auto& each) { return each->remote() == caller; });
    if (here || platform_->now() < caller->last_here + kReturnTime) return;
    if (remote_callers_.erase(caller->id) == 0) return;
    forgotten_callers_.emplace(caller->id, caller->replies.next());
  }
  caller->marks.cancel_suspended();
  caller->handed_over.let_go_of_all();
}

void Calls::end_suspended() {
  {
    const std::lock_guard lock{links_mutex_};
    for (const auto& link : links_) link->marks().cancel_suspended();
    for (const auto& [id, caller] : remote_callers_) caller->marks.cancel_suspended();
  }
  strand_.run_posted();
  instance_.destroy();  // it may have been constructed only now
}

void Calls::note_begin(const Function& function, TimePoint since, CallerId caller, std::uint64_t number) {
  runs_.since.store(since.time_since_epoch().count(), std::memory_order_relaxed);
  runs_.caller.store(caller.value(), std::memory_order_relaxed);
  runs_.number.store(number, std::memory_order_relaxed);
  runs_.function.store(&function, std::memory_order_release);
}

// Of a call that ends meanwhile, a mixture with the next one: it is a look, not an account.
wire::Inspected Calls::inspect() const {
  wire::InspectedWorker worker{.worker = worker_, .waits = caller_->pending_results()};
  if (const Function* const function = runs_.function.load(std::memory_order_acquire)) {
    worker.function = function_index(function->name());
    worker.nanoseconds = platform_->now().time_since_epoch().count() - runs_.since.load();
    worker.caller = CallerId{runs_.caller.load()};
    worker.number = runs_.number.load();
  }
  wire::Inspected inspected;
  inspected.workers.push_back(std::move(worker));
  return inspected;
}

void Calls::end_if_child() const {
  if (caller_->abandoned()) ::_exit(0);
}

void Calls::block(CallerLink& link) {
  if (blocked_.fetch_add(1) != 0) return;
  node_->send(wire::WorkerBlocked{true});
  link.give_back_rest();
  strand_.give_back_waiting();
}

void Calls::unblock() {
  if (blocked_.fetch_sub(1) == 1) node_->send(wire::WorkerBlocked{false});
}

}  // namespace pharos::actors
