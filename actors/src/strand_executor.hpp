#pragma once

#include <memory>
#include <mutex>

#include <pharos/async/executor.hpp>

#include "platform.hpp"
#include "strand.hpp"

namespace pharos::actors {

/// What is posted takes its turn among a worker's calls. Owned by the worker. Any thread.
class StrandExecutor final : public async::Executor {
 public:
  StrandExecutor(Platform& platform, Strand& strand);

  void post(async::Callback work) override;
  /// The same with more to do afterwards.
  void push(std::shared_ptr<Strand::Runner> runner);

  TimePoint now() const override { return platform_.now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override;
  bool cancel(async::TimerId timer) override { return platform_.executor().cancel(timer); }

 private:
  class Posted;

  Platform& platform_;
  Strand& strand_;
  const std::unique_ptr<Platform::Bell> bell_;  // a thread comes for what was posted
};

}  // namespace pharos::actors
