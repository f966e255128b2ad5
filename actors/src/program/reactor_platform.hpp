#pragma once

#include <memory>

#include <pharos/net/reactor.hpp>

#include "program/platform.hpp"

namespace pharos::actors {

/// The platform of a real process: sockets, threads and the machine's clock, over a reactor of its own. The Driver or
/// the worker makes it, and lets its threads poll the reactor, which ends with this object. Any thread.
class ReactorPlatform final : public Platform {
 public:
  net::Reactor& reactor() { return reactor_; }

  TimePoint now() const override { return reactor_.now(); }
  async::Executor& executor() override { return reactor_; }
  std::shared_ptr<net::Link> make_call_link(Fd socket) override;
  std::unique_ptr<Alarm> make_alarm(async::Callback ring) override;
  std::unique_ptr<Bell> make_bell(async::Callback ring) override;
  std::unique_ptr<async::Executor> make_thread(const char* name) override;
  void lead(async::Deadline deadline) override { reactor_.poll_one(deadline, net::Reactor::Poller::kLeader); }
  void interrupt_leader() override { reactor_.interrupt(); }
  std::shared_ptr<Sleepers> sleepers() override;
  void yield() override;
  void abandon_after_fork() override { reactor_.abandon_after_fork(); }

 private:
  const void* begin_detour() override { return reactor_.begin_detour(); }
  void end_detour(const void* left) override { reactor_.end_detour(left); }

  net::Reactor reactor_;
};

}  // namespace pharos::actors
