#pragma once

#include <memory>
#include <mutex>

#include <pharos/async/executor.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/reactor.hpp>

#include "strand.hpp"

namespace pharos::actors {

/// What is posted takes its turn among a worker's calls. Owned by the worker. Any thread.
class StrandExecutor final : public async::Executor {
 public:
  StrandExecutor(net::Reactor& reactor, Strand& strand);
  ~StrandExecutor() override;

  void post(async::Callback work) override;
  /// The same with more to do afterwards.
  void push(std::shared_ptr<Strand::Runner> runner);

  TimePoint now() const override { return reactor_.now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override;
  bool cancel(async::TimerId timer) override { return reactor_.cancel(timer); }

 private:
  class Posted;
  class Waker;

  net::Reactor& reactor_;
  Strand& strand_;
  const Fd wake_;  // a thread that polls comes for what was posted
};

}  // namespace pharos::actors
