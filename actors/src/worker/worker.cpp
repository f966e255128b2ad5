#include "worker/worker.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <pharos/base/log.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>

#include "caller/caller.hpp"
#include "program/function_table.hpp"
#include "program/reactor_platform.hpp"
#include "worker/call_server.hpp"
#include "worker/running_call.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto kHandshakeTime = 30s;
// An exclusive actor ends when the last sign of life from the head is this old, before the head gives its node up.
constexpr auto kSilenceMax = 8s;

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
    detail::set_caller_of_worker(server_.caller());
    server_.workplace().match_compute_threads();
    link->start(node_);
    // The zygote sends the same message, unless it dies between the fork and the message.
    if (Fd handle{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))}) {
      std::vector<Fd> descriptors;
      descriptors.push_back(std::move(handle));
      node_->send(wire::WorkerForked{WorkerId{preamble.id}, ::getpid()}, std::move(descriptors));
    }
    // While one of the two threads runs a call, the other one reads.
    standby_ = std::thread{[this] { poll(); }};
    poll();
  }

 private:
  [[noreturn]] void poll() {
    process::prepare_thread_for_crashes();
    for (;;) reactor_.poll_one(async::Deadline::never(), net::Reactor::Poller::kServer);
  }

  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) override {
    if (std::holds_alternative<wire::Inspect>(parcel.message) && request) {
      node_->respond(*request, server_.workplace().inspect());
      return;
    }
    if (const auto* const told = std::get_if<wire::EndWorker>(&parcel.message)) return end(*told);
    if (const auto* const beat = std::get_if<wire::Beat>(&parcel.message)) {
      last_beat_ = std::min(beat->sent, reactor_.now());
      return;
    }
    if (const auto* const made = std::get_if<wire::ConstructActor>(&parcel.message)) {
      is_actor_ = true;
      if (made->exclusive) watch_head();
    }
    if (std::holds_alternative<wire::Explain>(parcel.message) && request) {
      server_.caller()->pending_results().explain(
          server_.workplace().inspect().workers.front(),
          [node = node_, number = *request](auto explained) { node->respond(number, std::move(explained)); });
      return;
    }
    server_.on_node_message(node_, std::move(parcel));
    if (request) node_->respond(*request, wire::Done{});
  }

  // If the head has been silent for longer, it may have started another process for the actor.
  void watch_head() {
    if (reactor_.now() - last_beat_ >= kSilenceMax) {
      std::fprintf(stderr, "pharos: the head has sent nothing for %lld s, so this exclusive actor ends\n",
                   static_cast<long long>(std::chrono::seconds{kSilenceMax}.count()));
      ::_exit(1);
    }
    reactor_.run_at(reactor_.now() + kSilenceMax / 16, [this] { watch_head(); });
  }

  // The threads that read go on meanwhile, and refuse calls. A worker that runs tasks gives them back, and does not end
  // by itself: the node ends it when the caller has returned the lease. Otherwise tasks on their way to it would be
  // lost.
  void end(const wire::EndWorker& told) {
    const std::chrono::milliseconds grace{told.grace_ms};
    if (grace.count() == 0) end(Duration{});
    server_.workplace().begin_stop(told.moves);
    if (is_actor_) std::thread{[this, grace] { end(grace); }}.detach();
  }

  // Without its node no process would know of this worker or end it.
  void on_peer_closed(net::Peer&, const Error&) override { ::_exit(0); }

  // A call that still runs after the grace is cut off; otherwise the streams are flushed. Static destructors do not
  // run, because they belong to main, which never ran in this process.
  [[noreturn]] void end(Duration grace) {
    if (server_.stop(grace)) std::fflush(nullptr);
    ::_exit(0);
  }

  const std::shared_ptr<ReactorPlatform> platform_ = std::make_shared<ReactorPlatform>();
  net::Reactor& reactor_ = platform_->reactor();
  CallServer server_{platform_};
  std::shared_ptr<net::Peer> node_;
  std::thread standby_;
  // Used on the strand only.
  bool is_actor_ = false;
  TimePoint last_beat_;
};

// Called in a signal handler.
process::RunningFunction running_function() {
  const RunningCall* const running = RunningCall::of_this_thread();
  if (running == nullptr) return {};
  return {running->function_name(), RunningCall::stack_begin()};
}

}  // namespace

void run_worker(Fd control, process::CrashPage crash) {
  process::offer_to_out_of_memory_killer();
  const auto deadline = async::Deadline::after(kHandshakeTime, std::chrono::steady_clock::now());
  const auto preamble = process::receive_preamble(control.get(), deadline);
  if (!preamble) ::_exit(1);
  ::prctl(PR_SET_NAME, preamble->name);
  fix_function_table();
  process::record_crashes(&crash.record(), &running_function);
  process::answer_stack_questions(&crash.stacks());
  crash.release();
  // Never destroyed, because the process ends by _exit() while other threads may still use it.
  auto* const worker = new Worker;
  worker->serve(std::move(control), *preamble);
  ::_exit(1);
}

}  // namespace pharos::actors
