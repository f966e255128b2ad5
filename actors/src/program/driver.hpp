#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <pharos/actors/runtime_options.hpp>
#include <pharos/actors/worker_output.hpp>
#include <pharos/net/peer.hpp>

#include "caller/caller.hpp"
#include "program/output.hpp"
#include "program/quit_signal.hpp"
#include "program/reactor_platform.hpp"

namespace pharos::detail {

/// The implementation of a Runtime in a program: its connection to its node, the cluster that it may have started, and
/// the thread that reads from sockets when no user's thread does.
/// Owned by the Runtime. Any thread may call it, except that a thread of the Driver itself (also one that runs a
/// callback) must not call stop(), because stop() waits for these threads. Messages of the node are handled on the
/// reactor's strand.
/// Failure: start() returns kFailedPrecondition if the program has no start object, the errors of taken_along.hpp and
/// of embedded_cluster.hpp, kPermissionDenied or kUnsupported from the handshake, kUnavailable if the node dies, and
/// kDeadlineExceeded if the node has not registered the program after 60 s. When the node dies later, all calls fail
/// with kRuntimeStopped. End: stop() fails the calls in flight with kRuntimeStopped, runs the callbacks of results that
/// have come, ends everything that the Driver started, and shows the last output of the workers. It waits up to 10 s
/// each for the node and the keeper, and without a limit for callbacks. Later calls of stop() return at once, and so
/// does stop() in a child of fork(), where the Driver must not be destroyed. The destructor calls stop(), and so does
/// exit().
class Driver final : public net::Peer::Owner {
 public:
  static Result<std::shared_ptr<Driver>> start(const RuntimeOptions& options);
  ~Driver() override;

  const std::shared_ptr<Caller>& caller() const { return caller_; }
  void stop();
  void listen_to_output(const std::shared_ptr<const OutputListener>& listener) { output_->add_listener(listener); }

 private:
  explicit Driver(const RuntimeOptions& options);

  Result<void> connect(const RuntimeOptions& options);
  Result<void> register_job(std::vector<wire::ProgramFile> files);
  void answer_quit_signal();
  void run_io();
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer& peer, const Error& why) override;
  async::Async<void> stop_cluster();
  void reap_keeper();

  const std::shared_ptr<actors::ReactorPlatform> platform_ = std::make_shared<actors::ReactorPlatform>();
  net::Reactor& reactor_ = platform_->reactor();
  std::shared_ptr<Caller> caller_;
  const std::shared_ptr<actors::Output> output_;
  std::shared_ptr<net::Peer> node_;
  std::unique_ptr<actors::QuitSignal> quit_signal_;
  pid_t keeper_ = 0;
  bool greeted_ = false;  // the handshake with the daemon has succeeded
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> io_ends_ = false;
  std::thread io_thread_;
};

}  // namespace pharos::detail
