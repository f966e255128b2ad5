#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include <pharos/async/async_group.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/base/error.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

#include "program/platform.hpp"

namespace pharos::actors {

/// A caller's line to its node: the messages that it tells the node, its requests, and the coroutines that wait for the
/// answers. Shared by the parts of a Caller, and by the handles that may outlive it.
/// Threads: any thread, except that request() needs the strand. The coroutines run on the strand.
/// Failure: after hang_up() tell() does nothing, messages that wait are dropped, and over() says why. Requests fail as
/// net::Peer::request() does.
/// End: end() cancels the coroutines and waits for them; one that goes on for 10 s aborts the process. end() must not
/// be called on the strand, and must come before the destructor. In a child of fork(), abandon() only marks the line:
/// the callers ask abandoned().
class NodeLine final : public std::enable_shared_from_this<NodeLine> {
 public:
  explicit NodeLine(std::shared_ptr<Platform> platform)
      : platform_{std::move(platform)}, executor_{platform_->executor()}, background_{executor_} {}

  /// Called once, when the node has registered the caller. Nothing else can be called before.
  void join(std::shared_ptr<net::Peer> node, const wire::JobRegistered& registered);
  const wire::JobRegistered& registered() const { return registered_; }
  Platform& platform() const { return *platform_; }
  async::Executor& executor() const { return executor_; }

  /// Sends a message to the node, after all earlier ones.
  void tell(wire::Message message);
  /// Sends a message at once, perhaps before messages of tell() that are under way. Any thread.
  void send_now(const wire::Message& message) { node_->send(message); }
  /// Waits until all messages of tell() have been sent, as long as that takes. Not to be called on the strand.
  void finish_telling();
  /// Runs `then` on the strand once all earlier messages of tell() have been sent or, after hang_up(), dropped.
  void after_telling(async::Callback then) { executor_.post(std::move(then)); }
  /// Sends a request and waits for the answer. On the strand.
  async::Async<Result<net::Parcel>> request(wire::Message message,
                                            async::Deadline deadline = async::Deadline::never()) {
    return node_->request(std::move(message), {}, deadline);
  }
  /// Runs a coroutine in the background, on the strand. end() waits for it. Its arguments must live until then. An
  /// exception that leaves it aborts the process.
  void spawn(async::Async<void> work) { background_.spawn(std::move(work)); }

  /// Says that the node cannot be asked any more. Only the first reason counts.
  void hang_up(const Error& why);
  /// Returns why the node cannot be asked any more; nullopt while it can.
  std::optional<Error> over() const;
  void end();
  void abandon() { abandoned_.store(true); }
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<Platform> platform_;  // shared: handles may keep the line longer than the Driver lives
  async::Executor& executor_;
  std::shared_ptr<net::Peer> node_;
  wire::JobRegistered registered_;
  std::atomic<bool> abandoned_ = false;  // set in a child of fork() before it has a second thread, hence relaxed
  mutable std::mutex mutex_;
  std::optional<Error> over_;
  async::AsyncGroup background_;
};

}  // namespace pharos::actors
