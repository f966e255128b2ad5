#include "worker.hpp"

#include <cxxabi.h>
#include <pthread.h>
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

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/wire/error_codec.hpp>

#include "flush_queue.hpp"
#include "function_table.hpp"
#include "strand.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Function;
using detail::FunctionKind;
using wire::FrameHeader;
using wire::FrameKind;

constexpr auto kHandshakeTime = 30s;
constexpr auto kBusyTime = 100ms;  // for a call that runs when the worker is told to end
constexpr Duration kFlushDelayMax = 50us;
constexpr std::size_t kFlushBytes = 32 << 10;
constexpr std::size_t kRepliesMax = 192 << 10;
constexpr std::size_t kBatchesMax = 8;  // of one caller, a read buffer each, that wait to be run

/// The actor that lives here, if one does. The strand's.
struct Instance {
  void* object = nullptr;
  const Function* constructor = nullptr;
  std::optional<Error> failure;  // its constructor threw: every call repeats that

  void destroy() {
    if (object != nullptr) constructor->destroy(std::exchange(object, nullptr));
  }
};

Error describe_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  const std::string name = type == nullptr ? "an exception of unknown type" : readable_name(type->name());
  try {
    throw;
  } catch (const Exception& e) {
    return e.error();
  } catch (const std::exception& e) {
    return {ErrorCode::kUserError, "threw " + name + ": " + e.what()};
  } catch (...) {
    return {ErrorCode::kUserError, "threw " + name};
  }
}

/// Runs one call; what it throws is an error that names the function. (A forced unwinding has no exception object, which
/// the sanitizer takes for a mistake.)
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
    Error error = describe_exception();
    if (error.code() != ErrorCode::kUserError) return error;
    return Error{ErrorCode::kUserError, readable_name(function.name) + " " + error.message()};
  }
}

/// One caller's connection: runs its calls on the worker's strand and answers.
class CallerLink final : public net::Link::Handler,
                         public Strand::Runner,
                         public Flushable,
                         public std::enable_shared_from_this<CallerLink> {
 public:
  CallerLink(Strand& strand, Instance& instance, FlushQueue& flush_queue, wire::ServeCaller serves)
      : strand_{strand}, instance_{instance}, flush_queue_{flush_queue}, serves_{serves} {}

  void start(std::shared_ptr<net::SocketLink> link) {
    link_ = std::move(link);
    link_->start(shared_from_this());
  }

  bool wants_more() override { return batches_waiting_.load() < kBatchesMax; }
  void on_frames(net::FrameBatch frames, std::vector<Fd>) override {
    batches_waiting_.fetch_add(1);
    strand_.push(shared_from_this(), std::move(frames));
  }
  void on_idle() override { strand_.run(); }
  void on_closed(Error) override { link_->close(); }
  void flush() override {
    link_->flush();
    link_->resume();
  }

  void run(net::FrameBatch batch, bool more_follow) override {
    // A reply must not wait until calls behind it are done, however long they take: then the timer writes it.
    if (more_follow || !batch.one_left()) flush_queue_.add(weak_from_this());
    TimePoint before = std::chrono::steady_clock::now();
    while (!batch.empty()) {
      const wire::FrameView frame = batch.next();
      result_.clear();
      const std::optional<Error> error = run_one(frame);
      const TimePoint after = std::chrono::steady_clock::now();
      reply(frame.header, error, after - before);
      before = after;
    }
    batch = {};
    batches_waiting_.fetch_sub(1);
    link_->resume();
  }

  void on_drained() override { link_->flush(); }

 private:
  std::optional<Error> run_one(const wire::FrameView& frame) {
    const FrameHeader& header = frame.header;
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
    if (header.kind == FrameKind::kConstruct && function.kind == FunctionKind::kConstructor) {
      return construct(function, arguments);
    }
    const FunctionKind expected = serves_.actor ? FunctionKind::kMethod : FunctionKind::kTask;
    if (header.kind != FrameKind::kCall || function.kind != expected) {
      return Error{ErrorCode::kFunctionNotFound, readable_name(function.name) + " cannot be called that way"}
          .with_outcome(Outcome::kNotStarted);
    }
    if (serves_.actor && instance_.object == nullptr) {
      return instance_.failure ? *instance_.failure
                               : Error{ErrorCode::kFailedPrecondition, "the actor has not been constructed"};
    }
    return guarded(function, [&] { function.call(instance_.object, arguments, result_); });
  }

  std::optional<Error> construct(const Function& function, Decoder& arguments) {
    if (instance_.constructor != nullptr || !serves_.actor) {
      return Error{ErrorCode::kAlreadyExists, "this worker has been given an actor before"};
    }
    instance_.constructor = &function;
    auto error = guarded(function, [&] { instance_.object = function.construct(arguments); });
    if (!error) return std::nullopt;
    instance_.failure =
        Error{ErrorCode::kActorDied, "the actor's constructor failed: " + error->message()}.with_outcome(
            Outcome::kNotStarted);
    return error;
  }

  void reply(const FrameHeader& call, const std::optional<Error>& error, Duration execution) {
    FrameHeader header = call;
    header.kind = FrameKind::kReply;
    header.time = execution.count();
    if (error) {
      result_.clear();
      Codec<Error>::encode(*error, result_);
      header.status = wire::ReplyStatus::kError;
    }
    if (result_.bytes().size() > wire::kCallPayloadMax.bytes()) return reply_too_large(call, execution);
    link_->send(header, result_.bytes());
    if (link_->queued() > kFlushBytes) link_->flush();
    // A caller that does not read gets no more results until it does.
    if (link_->queued() > kRepliesMax) link_->wait_for_room(kRepliesMax, Deadline::never());
  }

  void reply_too_large(const FrameHeader& call, Duration execution) {
    const ByteCount size{result_.bytes().size()};
    reply(call,
          Error{ErrorCode::kInvalidArgument,
                "the result has " + to_string(size) + "; at most " + to_string(wire::kCallPayloadMax) + " can travel"},
          execution);
  }

  Strand& strand_;
  Instance& instance_;
  FlushQueue& flush_queue_;
  const wire::ServeCaller serves_;
  std::shared_ptr<net::SocketLink> link_;
  std::atomic<std::size_t> batches_waiting_ = 0;
  Encoder result_;  // the strand's
};

class Worker final : public net::Peer::Owner {
 public:
  void serve(Fd control, const process::Preamble& preamble) {
    const auto deadline = async::Deadline::after(kHandshakeTime, reactor_.now());
    const net::Identity self{net::Role::kWorker, preamble.id};
    if (auto node = net::initiate(control.get(), preamble.key, self, deadline); !node) {
      log(LogLevel::kError, "the node does not answer", {kv("error", node.error())});
      return;
    }
    const auto link = net::SocketLink::make(reactor_, std::move(control), net::Descriptors::kAccepted);
    node_ = net::Peer::make(reactor_, link, *this);
    link->start(node_);
    // The zygote says the same, unless it dies between the fork and its word.
    std::vector<Fd> handle;
    handle.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    node_->send(wire::WorkerForked{WorkerId{preamble.id}, ::getpid()}, std::move(handle));
    // While one of the two runs a call, the other reads.
    standby_ = std::thread{[this] { poll(); }};
    poll();
  }

 private:
  [[noreturn]] void poll() {
    for (;;) reactor_.poll_one(async::Deadline::never(), net::Reactor::Poller::kServer);
  }

  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t>) override {
    if (const auto* const serve = std::get_if<wire::ServeCaller>(&parcel.message)) {
      auto caller = std::make_shared<CallerLink>(strand_, instance_, *flush_queue_, *serve);
      callers_.push_back(caller);
      caller->start(net::SocketLink::make(reactor_, std::move(parcel.descriptors.front()), net::Descriptors::kRefused));
    } else if (std::holds_alternative<wire::EndWorker>(parcel.message)) {
      end();
    }
  }

  // Without its node nobody would end it, or know of it.
  void on_peer_closed(net::Peer&, const Error&) override { ::_exit(0); }

  // A call that runs on is cut off; else the actor's destructor runs and streams are flushed. Static destructors do
  // not: they belong to main, which never ran here.
  [[noreturn]] void end() {
    if (strand_.stop(async::Deadline::after(kBusyTime, reactor_.now()))) {
      instance_.destroy();
      std::fflush(nullptr);
    }
    ::_exit(0);
  }

  net::Reactor reactor_;
  std::shared_ptr<FlushQueue> flush_queue_ = FlushQueue::make(reactor_, kFlushDelayMax);
  std::shared_ptr<net::Peer> node_;
  Instance instance_;
  Strand strand_;
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
