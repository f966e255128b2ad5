#include "worker.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/wire/error_codec.hpp>

#include "caller.hpp"
#include "flush_queue.hpp"
#include "function_table.hpp"
#include "large_values.hpp"
#include "running_call.hpp"
#include "strand.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Function;
using detail::FunctionKind;
using wire::FrameHeader;
using wire::FrameKind;

constexpr auto kHandshakeTime = 30s;
constexpr Duration kPatience = 200us;  // that a task waits before it gives its CPU away
constexpr auto kBusyTime = 100ms;      // for a call that runs when the worker is told to end
constexpr Duration kFlushDelayMax = 50us;
constexpr std::size_t kFlushBytes = 32 << 10;
constexpr std::size_t kRepliesMax = 192 << 10;
constexpr std::size_t kBatchesMax = 8;  // of one caller, a read buffer each, that wait to be run

/// The actor that lives here, if one does. The strand's.
struct Instance {
  void* object = nullptr;
  const Function* constructor = nullptr;
  ActorId actor;
  std::uint32_t incarnation = 0;

  void destroy() {
    if (object != nullptr) constructor->destroy(std::exchange(object, nullptr));
  }
};

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

class CallerLink;

/// What a worker's callers share: the order in which it runs their calls, and what a call that waits does to it.
/// The worker's; any thread.
class Calls {
 public:
  Calls(std::shared_ptr<net::Reactor> reactor, std::shared_ptr<FlushQueue> flush_queue)
      : reactor_{*reactor}, flush_queue_{flush_queue}, caller_{detail::Caller::make(std::move(reactor), flush_queue)} {}

  Strand& strand() { return strand_; }
  Instance& instance() { return instance_; }
  FlushQueue& flush_queue() { return *flush_queue_; }
  const std::shared_ptr<detail::Caller>& caller() const { return caller_; }
  WorkerId worker() const { return worker_; }
  net::Reactor& reactor() { return reactor_; }
  /// A task of this worker waits for something: it takes no others meanwhile.
  bool blocked() const { return blocked_.load() != 0; }

  void join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered) {
    node_ = node;
    worker_ = WorkerId{registered.caller.value()};  // a worker calls by its own number
    caller_->join(std::move(node), registered);
  }

  /// Runs the constructor, in its place among the calls, and tells the node.
  void construct(wire::ConstructActor actor);

  /// The running task, which came with `link`, waits: others may have its CPU, and the tasks behind it.
  void block(CallerLink& link);
  void unblock() {
    if (blocked_.fetch_sub(1) == 1) node_->send(wire::WorkerBlocked{false});
  }

 private:
  net::Reactor& reactor_;
  const std::shared_ptr<FlushQueue> flush_queue_;
  const std::shared_ptr<detail::Caller> caller_;
  Strand strand_;
  Instance instance_;
  std::shared_ptr<net::Peer> node_;
  WorkerId worker_;
  std::atomic<int> blocked_ = 0;
};

/// One caller's connection: runs its calls on the worker's strand and answers.
class CallerLink final : public net::Link::Handler,
                         public Strand::Runner,
                         public Flushable,
                         public std::enable_shared_from_this<CallerLink> {
 public:
  CallerLink(Calls& calls, wire::ServeCaller serves)
      : calls_{calls}, serves_{serves}, room_{calls.caller()->large_values(), serves.caller} {
    result_.set_large_room(&room_);
  }

  void start(std::shared_ptr<net::SocketLink> link) {
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
  void on_closed(Error) override { link_->close(); }
  void flush() override {
    link_->flush();
    link_->resume();
  }

  void run(net::FrameBatch batch, bool more_follow) override {
    // A reply must not wait until calls behind it are done, however long they take: then the timer writes it.
    if (more_follow || !batch.one_left()) calls_.flush_queue().add(weak_from_this());
    batch_ = std::move(batch);
    TimePoint before = std::chrono::steady_clock::now();
    while (!batch_.empty()) {
      const wire::FrameView frame = batch_.next();
      if (frame.header.kind == FrameKind::kCancel) continue;
      result_.clear();
      const std::optional<Error> error = run_one(frame);
      const TimePoint after = std::chrono::steady_clock::now();
      reply(frame.header, error, after - before);
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
        marks_[header.number].deadline = Deadline::after(Duration{header.time}, calls_.reactor().now());
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
    header.flags = wire::kNoFlags;
    header.time = execution.count();
    if (error) {
      result_.clear();
      room_.clear();
      Codec<Error>::encode(*error, result_);
      header.status = wire::ReplyStatus::kError;
    }
    if (result_.failed()) {
      const bool no_room = result_.failure() == CodecFailure::kNoRoom;
      return reply(call,
                   no_room ? room_.why().with("storing the result") : detail::cannot_travel("the result", result_),
                   execution);
    }
    if (result_.in_room()) {
      reply_in_store(header);
    } else if (result_.size() > wire::kCallPayloadMax.bytes()) {
      return reply_too_large(call, execution);
    } else if (result_.has_shared()) {
      link_->send(header, result_.flattened());
    } else {
      link_->send(header, result_.bytes());
    }
    if (link_->queued() > kFlushBytes) link_->flush();
    // A caller that does not read gets no more results until it does.
    if (link_->queued() > kRepliesMax) link_->wait_for_room(kRepliesMax, Deadline::never());
  }

  // The object is the caller's from now on.
  void reply_in_store(FrameHeader header) {
    const auto object = room_.seal();
    const Piece whole{0, object->location(), 0, object->bytes().size()};
    Encoder payload;
    write_pieces({&whole, 1}, {}, payload);
    header.flags = wire::kInPieces;
    if (link_->send(header, payload.bytes())) object->hand_over();
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
  std::shared_ptr<net::SocketLink> link_;
  std::atomic<std::size_t> batches_waiting_ = 0;
  std::atomic<std::uint64_t> first_unanswered_ = 0;
  std::atomic<bool> any_marks_ = false;
  mutable std::mutex marks_mutex_;
  std::unordered_map<std::uint64_t, Mark> marks_;  // by number, of the few calls that have one
  // The strand's.
  net::FrameBatch batch_;  // what is left of the one that is being run
  RoomIn room_;
  Encoder result_;
};

/// A call while this thread runs it.
class Running final : public RunningCall {
 public:
  /// `link`: what the call came with; a constructor came with none.
  Running(Calls& calls, CallerLink* link, std::uint64_t number, TraceId trace, bool is_task)
      : calls_{calls}, link_{link}, number_{number}, trace_{trace}, is_task_{is_task}, detour_{calls.reactor()} {}

  void wait(detail::ResultCell& cell, async::Deadline deadline) override {
    if (run_instead(cell)) return;
    cell.park(std::min(deadline, async::Deadline::after(kPatience, calls_.reactor().now())));
    if (cell.ready() || deadline.expired(calls_.reactor().now())) return;
    if (is_task_) calls_.block(*link_);
    // Looks up now and then: the task may come back to this worker's own pool, from a worker that does not run it after
    // all; and this call may be cancelled.
    for (Duration slice = 1ms; !cell.ready() && !deadline.expired(calls_.reactor().now());
         slice = std::min<Duration>(2 * slice, 64ms)) {
      if (run_instead(cell)) break;
      if (cancelled()) {
        cell.cancel();
        break;
      }
      cell.park(std::min(deadline, async::Deadline::after(slice, calls_.reactor().now())));
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
    RoomIn room{calls_.caller()->large_values()};
    Encoder result;
    result.set_large_room(&room);
    const Running running{calls_, link_, number_, cell.call().trace, is_task_};
    auto error = guarded(function, [&] {
      const Arrived arrived{calls_.caller()->large_values(), cell.call().flags, cell.arguments()};
      Decoder arguments = arrived.decoder();
      function.call(nullptr, arguments, result);
    });
    if (error) {
      cell.set_error(std::move(*error));
    } else if (result.failure() == CodecFailure::kNoRoom) {
      cell.set_error(room.why().with("storing the result"));
    } else if (result.failed()) {
      cell.set_error(detail::cannot_travel("the result", result));
    } else if (result.in_room()) {
      cell.set_object(room.seal());
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
  const net::Reactor::Detour detour_;
};

std::optional<Error> CallerLink::run_one(const wire::FrameView& frame) {
  const FrameHeader& header = frame.header;
  const Mark mark = mark_of(header.number);
  if (!mark.deadline.is_never() && mark.deadline.expired(calls_.reactor().now())) [[unlikely]] {
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
  return guarded(function, [&] {
    const Arrived arrived{calls_.caller()->large_values(), header.flags, frame.payload};
    Decoder arguments = arrived.decoder();
    function.call(instance.object, arguments, result_);
  });
}

/// The constructor, in its place among the calls.
class Construction final : public Strand::Runner,
                           public net::Reactor::Watcher,
                           public std::enable_shared_from_this<Construction> {
 public:
  Construction(Calls& calls, std::shared_ptr<net::Peer> node, wire::ConstructActor actor)
      : calls_{calls}, node_{std::move(node)}, actor_{std::move(actor)} {}

  // On a thread that polls, outside of the reactor's own strand: the constructor may wait for what that brings.
  void start() {
    calls_.reactor().watch(begin_.get(), EPOLLIN, shared_from_this());
    calls_.strand().push(shared_from_this(), {});
    const std::uint64_t one = 1;
    PHAROS_CHECK(::write(begin_.get(), &one, sizeof one) == sizeof one, errno);
  }
  void on_ready(std::uint32_t) override {
    calls_.reactor().unwatch(begin_.get());
    calls_.strand().run();
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
    const Running running{calls_, nullptr, 0, TraceId{}, false};
    const auto error = guarded(constructor, [&] {
      const std::uint8_t flags = actor_.in_pieces ? wire::kInPieces : wire::kNoFlags;
      const Arrived arrived{calls_.caller()->large_values(), flags, actor_.arguments};
      Decoder arguments = arrived.decoder();
      instance.object = constructor.construct(arguments);
    });
    if (!error) return std::nullopt;
    return Error{ErrorCode::kActorDied, "the actor's constructor failed: " + error->message()}.with_outcome(
        Outcome::kNotStarted);
  }

  Calls& calls_;
  const std::shared_ptr<net::Peer> node_;
  const wire::ConstructActor actor_;
  const Fd begin_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

void Calls::construct(wire::ConstructActor actor) {
  std::make_shared<Construction>(*this, node_, std::move(actor))->start();
}

void Calls::block(CallerLink& link) {
  if (blocked_.fetch_add(1) != 0) return;
  node_->send(wire::WorkerBlocked{true});
  link.give_back_rest();
  strand_.give_back_waiting();
}

class Worker final : public net::Peer::Owner {
 public:
  void serve(Fd control, const process::Preamble& preamble) {
    const auto deadline = async::Deadline::after(kHandshakeTime, reactor_->now());
    const net::Identity self{net::Role::kWorker, preamble.id};
    if (auto node = net::initiate(control.get(), preamble.key, self, deadline); !node) {
      log(LogLevel::kError, "the node does not answer", {kv("error", node.error())});
      return;
    }
    const auto link = net::SocketLink::make(*reactor_, std::move(control), net::Descriptors::kAccepted);
    node_ = net::Peer::make(*reactor_, link, *this);
    link->start(node_);
    // The zygote says the same, unless it dies between the fork and its word.
    if (Fd handle{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))}) {
      std::vector<Fd> descriptors;
      descriptors.push_back(std::move(handle));
      node_->send(wire::WorkerForked{WorkerId{preamble.id}, ::getpid()}, std::move(descriptors));
    }
    // While one of the two runs a call, the other reads.
    standby_ = std::thread{[this] { poll(); }};
    poll();
  }

 private:
  [[noreturn]] void poll() {
    for (;;) reactor_->poll_one(async::Deadline::never(), net::Reactor::Poller::kServer);
  }

  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t>) override {
    if (const auto* const serve = std::get_if<wire::ServeCaller>(&parcel.message)) {
      auto caller = std::make_shared<CallerLink>(calls_, *serve);
      callers_.push_back(caller);
      caller->start(
          net::SocketLink::make(*reactor_, std::move(parcel.descriptors.front()), net::Descriptors::kRefused));
    } else if (const auto* const registered = std::get_if<wire::JobRegistered>(&parcel.message)) {
      calls_.join(node_, *registered);
      detail::set_caller_of_worker(calls_.caller());
    } else if (auto* const actor = std::get_if<wire::ConstructActor>(&parcel.message)) {
      calls_.construct(std::move(*actor));
    } else if (std::holds_alternative<wire::EndWorker>(parcel.message)) {
      end();
    } else {
      calls_.caller()->on_node_message(parcel.message);
    }
  }

  // Without its node nobody would end it, or know of it.
  void on_peer_closed(net::Peer&, const Error&) override { ::_exit(0); }

  // A call that runs on is cut off; else the actor's destructor runs and streams are flushed. Static destructors do
  // not: they belong to main, which never ran here.
  [[noreturn]] void end() {
    if (calls_.strand().stop(async::Deadline::after(kBusyTime, reactor_->now()))) {
      calls_.instance().destroy();
      std::fflush(nullptr);
    }
    ::_exit(0);
  }

  const std::shared_ptr<net::Reactor> reactor_ = std::make_shared<net::Reactor>();
  Calls calls_{reactor_, FlushQueue::make(*reactor_, kFlushDelayMax)};
  std::shared_ptr<net::Peer> node_;
  std::vector<std::shared_ptr<CallerLink>> callers_;
  std::thread standby_;
};

}  // namespace

void run_worker(Fd control) {
  process::offer_to_out_of_memory_killer();
  const auto deadline = async::Deadline::after(kHandshakeTime, std::chrono::steady_clock::now());
  const auto preamble = process::receive_preamble(control.get(), deadline);
  if (!preamble) ::_exit(1);
  ::prctl(PR_SET_NAME, preamble->name);
  if (!fix_function_table()) ::_exit(1);
  // Never destroyed: the process ends by _exit, whichever thread is where.
  auto* const worker = new Worker;
  worker->serve(std::move(control), *preamble);
  ::_exit(1);
}

}  // namespace pharos::actors
