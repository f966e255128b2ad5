#pragma once

#include <memory>
#include <mutex>

#include <pharos/async/executor.hpp>

#include "program/platform.hpp"
#include "worker/strand.hpp"

namespace pharos::actors {

/// An Executor whose work takes its turn among a worker's calls. Owned by Workplace, as the strand is. Any thread.
/// Failure: work that is posted after Strand::stop() runs only in Strand::run_posted().
/// End: timers use this object, so the platform's executor must not run them after the destructor. The platform and the
/// strand must outlive it. In a worker process this object is never destroyed.
class StrandExecutor final : public async::Executor {
 public:
  StrandExecutor(Platform& platform, Strand& strand);

  void post(async::Callback work) override;
  /// Posts a runner instead of a callback, for work that has more to do after it has run.
  void push(std::shared_ptr<Strand::Runner> runner);

  TimePoint now() const override { return platform_.now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override;
  bool cancel(async::TimerId timer) override { return platform_.executor().cancel(timer); }

 private:
  class Posted;

  Platform& platform_;
  Strand& strand_;
  const std::unique_ptr<Platform::Bell> bell_;  // calls a thread that runs the posted work
};

}  // namespace pharos::actors
