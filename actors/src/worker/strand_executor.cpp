#include "worker/strand_executor.hpp"

#include <utility>

namespace pharos::actors {

class StrandExecutor::Posted final : public Strand::Runner {
 public:
  explicit Posted(async::Callback work) : work_{std::move(work)} {}

  void run(net::FrameBatch, bool) override { std::exchange(work_, {})(); }
  void give_back(net::FrameBatch) override {}
  void on_drained() override {}

 private:
  async::Callback work_;
};

StrandExecutor::StrandExecutor(Platform& platform, Strand& strand)
    : platform_{platform}, strand_{strand}, bell_{platform.make_bell([&strand] { strand.run(); })} {}

void StrandExecutor::post(async::Callback work) {
  push(std::make_shared<Posted>(std::move(work)));
}

void StrandExecutor::push(std::shared_ptr<Strand::Runner> runner) {
  if (!strand_.push(std::move(runner), {})) bell_->ring();
}

async::TimerId StrandExecutor::run_at(TimePoint when, async::Callback work) {
  return platform_.executor().run_at(when, [this, work = std::move(work)]() mutable { post(std::move(work)); });
}

}  // namespace pharos::actors
