#include "calls.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <unordered_map>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/wire/error_codec.hpp>

#include "function_table.hpp"
#include "running_call.hpp"

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
constexpr std::size_t kBatchesMax = 8;  // of one caller, a read buffer each, that wait to be run

/// Runs one call; what it throws is an error that names the function. (A forced unwinding has no exception object,
/// which the sanitizer takes for a mistake.)
template <class Call>
__attribute__((no_sanitize("null"))) std::optional<Error> guarded(const Function& function, const Call& call) {
  try {
    call();
    return std::nullopt;
  } catch (const abi::__forced_unwind&) {
    // pthread_exit() or a cancelled thread: the unwinding cannot be stopped, and without its thread the worker is none.
    log(LogLevel::kError, "a function ended its thread; the worker ends",
        {kv("function", readable_name(function.name))});
    ::_exit(1);
  } catch (...) {
    Error error = detail::current_exception();
    if (error.code() != ErrorCode::kUserError) return error;
    return Error{ErrorCode::kUserError, readable_name(function.name) + " " + error.message()};
  }
}

}  // namespace

/// One caller's connection: runs its calls on the worker's strand and answers.
class CallerLink final : public net::Link::Handler,
                         public Strand::Runner,
                         public Flushable,
                         public std::enable_shared_from_this<CallerLink> {
 public:
  CallerLink(Calls& calls, wire::ServeCaller serves) : calls_{calls}, serves_{serves} {}

  void start(std::shared_ptr<net::Link> link) {
    link_ = std::move(link);
    link_->start(shared_from_this());
  }

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
    link_->flush();
    link_->resume();
  }

  void run(net::FrameBatch batch, bool more_follow) override {
    batch_ = std::move(batch);
    TimePoint before = calls_.platform().now();
    while (!batch_.empty()) {
      const wire::FrameView frame = batch_.next();
      if (frame.header.kind == FrameKind::kCancel) continue;
      result_.clear();
      const std::optional<Error> error = run_one(frame);
      const TimePoint after = calls_.platform().now();
      reply(frame.header, error, after - before);
      // It must not wait until the calls behind it are done, however long they take: then the timer writes it.
      if ((more_follow || !batch_.empty()) && !unflushed_.exchange(true)) calls_.flush_queue().add(weak_from_this());
      first_unanswered_.store(frame.header.number + 1, std::memory_order_relaxed);
      if (any_marks_.load(std::memory_order_relaxed)) forget_mark(frame.header.number);
      before = after;
    }
    batch_ = {};
    batches_waiting_.fetch_sub(1);
    link_->resume();
  }

  void on_drained() override { link_->flush(); }

  /// Its caller has asked for this call to stop.
  bool cancelled(std::uint64_t number) const { return mark_of(number).cancelled; }
  Deadline deadline_of(std::uint64_t number) const { return mark_of(number).deadline; }

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
  // Cancels overtake the calls that they came behind; and the time that a call has left begins now.
  void note_marks(net::FrameBatch frames) {
    while (!frames.empty()) {
      const FrameHeader header = frames.next().header;
      if (header.kind == FrameKind::kCancel) {
        const std::lock_guard lock{marks_mutex_};
        if (header.number < first_unanswered_.load()) continue;  // too late
        marks_[header.number].cancelled = true;
        any_marks_.store(true, std::memory_order_release);
      } else if (header.time != 0) {
        const std::lock_guard lock{marks_mutex_};
        marks_[header.number].deadline = Deadline::after(Duration{header.time}, calls_.platform().now());
        any_marks_.store(true, std::memory_order_release);
      }
    }
  }
  struct Mark {
    bool cancelled = false;
    Deadline deadline = Deadline::never();
  };
  Mark mark_of(std::uint64_t number) const {
    if (!any_marks_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock{marks_mutex_};
    const auto found = marks_.find(number);
    return found == marks_.end() ? Mark{} : found->second;
  }
  void forget_mark(std::uint64_t number) {
    const std::lock_guard lock{marks_mutex_};
    marks_.erase(number);
    any_marks_.store(!marks_.empty(), std::memory_order_release);
  }

  void give_back_frames(net::FrameBatch& batch) {
    while (!batch.empty()) {
      FrameHeader header = batch.next().header;
      if (header.kind == FrameKind::kCancel) continue;
      header.kind = FrameKind::kReply;
      header.status = wire::ReplyStatus::kReturned;
      link_->send(header, {});
    }
  }

  std::optional<Error> run_one(const wire::FrameView& frame);

  void reply(const FrameHeader& call, const std::optional<Error>& error, Duration execution) {
    FrameHeader header = call;
    header.kind = FrameKind::kReply;
    header.time = execution.count();
    if (error) {
      result_.clear();
      Codec<Error>::encode(*error, result_);
      header.status = wire::ReplyStatus::kError;
    }
    if (result_.size() > wire::kCallPayloadMax.bytes()) return reply_too_large(call, execution);
    if (result_.failed()) return reply(call, detail::cannot_travel("the result", result_), execution);
    if (result_.has_shared()) {
      link_->send(header, result_.flattened());
    } else {
      link_->send(header, result_.bytes());
    }
    if (link_->queued() > kFlushBytes) link_->flush();
    // A caller that does not read gets no more results until it does.
    if (link_->queued() > kRepliesMax) link_->wait_for_room(kRepliesMax, Deadline::never());
  }

  void reply_too_large(const FrameHeader& call, Duration execution) {
    const ByteCount size{result_.size()};
    reply(call,
          Error{ErrorCode::kInvalidArgument,
                "the result has " + to_string(size) + "; at most " + to_string(wire::kCallPayloadMax) + " can travel"},
          execution);
  }

  Calls& calls_;
  const wire::ServeCaller serves_;
  std::shared_ptr<net::Link> link_;
  std::atomic<std::size_t> batches_waiting_ = 0;
  std::atomic<bool> unflushed_ = false;  // a reply waits for the timer
  std::atomic<std::uint64_t> first_unanswered_ = 0;
  std::atomic<bool> any_marks_ = false;
  mutable std::mutex marks_mutex_;
  std::unordered_map<std::uint64_t, Mark> marks_;  // by number, of the few calls that have one
  // The strand's.
  net::FrameBatch batch_;  // what is left of the one that is being run
  Encoder result_;
};

namespace {

/// A call while this thread runs it.
class Running final : public RunningCall {
 public:
  /// `link`: what the call came with; a constructor came with none.
  Running(Calls& calls, CallerLink* link, std::uint64_t number, TraceId trace, bool is_task)
      : calls_{calls}, link_{link}, number_{number}, trace_{trace}, is_task_{is_task}, detour_{calls.platform()} {}

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
  bool cancelled() const override { return link_ != nullptr && link_->cancelled(number_); }
  TraceId trace() const override { return trace_; }
  Deadline deadline() const override { return link_ == nullptr ? Deadline::never() : link_->deadline_of(number_); }
  Context context() const override {
    const Instance& instance = calls_.instance();
    return {.job = calls_.caller()->job(),
            .node = calls_.caller()->node(),
            .worker = calls_.worker(),
            .actor = instance.actor,
            .incarnation = instance.incarnation,
            .trace = trace_,
            .deadline = deadline()};
  }

 private:
  // A task for which there will be no worker soon is run by the one who waits for it.
  bool run_instead(detail::ResultCell& cell) {
    if (!calls_.caller()->take_back(cell)) return false;
    const Function& function = function_table()[cell.call().function];
    Decoder arguments{cell.arguments()};
    Encoder result;
    const Running running{calls_, link_, number_, cell.call().trace, is_task_};
    auto error = guarded(function, [&] { function.call(nullptr, arguments, result); });
    if (error) {
      cell.set_error(std::move(*error));
    } else {
      cell.set_value(result);
    }
    return true;
  }

  Calls& calls_;
  CallerLink* const link_;
  const std::uint64_t number_;  // of the call that came with the link; what runs inside of it is cancelled with it
  const TraceId trace_;
  const bool is_task_;
  const Platform::Detour detour_;
};

}  // namespace

std::optional<Error> CallerLink::run_one(const wire::FrameView& frame) {
  const FrameHeader& header = frame.header;
  const Mark mark = mark_of(header.number);
  if (!mark.deadline.is_never() && mark.deadline.expired(calls_.platform().now())) [[unlikely]] {
    return Error{ErrorCode::kDeadlineExceeded, "its deadline passed before it could begin"}.with_outcome(
        Outcome::kNotStarted);
  }
  if (mark.cancelled) {
    return Error{ErrorCode::kCancelled, "the call was cancelled"}.with_outcome(Outcome::kNotStarted);
  }
  if (header.actor != serves_.actor.value() || header.incarnation != serves_.incarnation) {
    return Error{ErrorCode::kActorDied, "the call was for another actor or incarnation"}.with_outcome(
        Outcome::kNotStarted);
  }
  const auto functions = function_table();
  if (header.function >= functions.size()) {
    return Error{ErrorCode::kFunctionNotFound,
                 "the worker's executable has no function " + std::to_string(header.function) + "; it has " +
                     std::to_string(functions.size()),
                 "Caller and worker must be the same build."}
        .with_outcome(Outcome::kNotStarted);
  }
  const Function& function = functions[header.function];
  Decoder arguments{frame.payload};
  const FunctionKind expected = serves_.actor ? FunctionKind::kMethod : FunctionKind::kTask;
  if (header.kind != FrameKind::kCall || function.kind != expected) {
    return Error{ErrorCode::kFunctionNotFound, readable_name(function.name) + " cannot be called that way"}
        .with_outcome(Outcome::kNotStarted);
  }
  Instance& instance = calls_.instance();
  if (serves_.actor && instance.object == nullptr) {
    return Error{ErrorCode::kFailedPrecondition, "the actor has not been constructed"};
  }
  const Running running{calls_, this, header.number, TraceId{header.trace}, !serves_.actor};
  return guarded(function, [&] { function.call(instance.object, arguments, result_); });
}

namespace {

/// The constructor, in its place among the calls.
class Construction final : public Strand::Runner, public std::enable_shared_from_this<Construction> {
 public:
  Construction(Calls& calls, std::shared_ptr<net::Peer> node, wire::ConstructActor actor)
      : calls_{calls}, node_{std::move(node)}, actor_{std::move(actor)} {}

  void start() {
    calls_.strand().push(shared_from_this(), {});
    calls_.platform().run_aside([self = shared_from_this()] { self->calls_.strand().run(); });
  }

  void run(net::FrameBatch, bool) override {
    node_->send(wire::ActorConstructed{actor_.actor, actor_.incarnation, construct()});
  }
  void give_back(net::FrameBatch) override {}
  void on_drained() override {}

 private:
  std::optional<Error> construct() {
    const auto functions = function_table();
    if (actor_.constructor >= functions.size() || functions[actor_.constructor].kind != FunctionKind::kConstructor) {
      return Error{ErrorCode::kFunctionNotFound, "the worker's executable does not have the actor's constructor"};
    }
    const Function& constructor = functions[actor_.constructor];
    Instance& instance = calls_.instance();
    instance.constructor = &constructor;
    instance.actor = actor_.actor;
    instance.incarnation = actor_.incarnation;
    Decoder arguments{actor_.arguments};
    const Running running{calls_, nullptr, 0, TraceId{}, false};
    const auto error = guarded(constructor, [&] { instance.object = constructor.construct(arguments); });
    if (!error) return std::nullopt;
    return Error{ErrorCode::kActorDied, "the actor's constructor failed: " + error->message()}.with_outcome(
        Outcome::kNotStarted);
  }

  Calls& calls_;
  const std::shared_ptr<net::Peer> node_;
  const wire::ConstructActor actor_;
};

}  // namespace

Calls::Calls(const std::shared_ptr<Platform>& platform)
    : platform_{platform},
      flush_queue_{FlushQueue::make(*platform, kFlushDelayMax)},
      caller_{detail::Caller::make(platform, flush_queue_)} {}

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

void Calls::construct(wire::ConstructActor actor) {
  std::make_shared<Construction>(*this, node_, std::move(actor))->start();
}

void Calls::serve(wire::ServeCaller caller, Fd socket) {
  const auto link = std::make_shared<CallerLink>(*this, caller);
  {
    const std::lock_guard lock{links_mutex_};
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
