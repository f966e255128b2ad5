#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include <pharos/actors/member.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/base/check.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/trial_worker.hpp>

namespace pharos::ml::detail {
namespace {

constexpr std::size_t kEventsMax = 4096;  // events that the tuner has not fetched; at this number reports wait

/// Thrown through an objective that waits for the tuner when its runner is destroyed.
struct Left {};

Communicator* communicator_of_member() {
  return pharos::member().size > 1 ? &communicator() : nullptr;
}

/// The connection of a trial whose objective gets no Trial, and so cannot use it.
class NoConnection final : public TrialConnection {
  Value ask(const std::string& name, const Domain&) override { PHAROS_CHECK(false, name); }
  Verdict report(std::uint64_t step, const Metrics&, const Save&) override { PHAROS_CHECK(false, step); }
};

TrialEnds ended(const TrialRunner::Objective& objective, Trial& trial) {
  TrialEnds end;
  try {
    end.metrics = objective(trial);
  } catch (const Left&) {
    throw;
  } catch (...) {
    end.threw = pharos::detail::current_exception().story();
  }
  return end;
}

}  // namespace

/// The objective's thread, and the connection between it and the actor's methods. Orders go to the thread in `order_`,
/// and its events come back in `events_`.
class TrialRunner::Thread final : public TrialConnection {
 public:
  explicit Thread(Objective objective)
      : objective_{std::move(objective)},
        cores_{static_cast<std::uint32_t>(std::max(context().cpus, 1.0))},
        thread_{[this] { run(); }} {}
  ~Thread() override {
    {
      const std::lock_guard lock{mutex_};
      ends_ = stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // ---- The actor's side

  void take(TrialOrder order, Communicator* communicator) {
    {
      const std::lock_guard lock{mutex_};
      if (std::holds_alternative<TrialWait>(order)) return;
      if (std::holds_alternative<TrialStart>(order)) {
        communicator_ = communicator;
        stops_ = false;
      }
      order_ = std::move(order);
    }
    changed_.notify_all();
  }
  /// Returns the events that there are, or else a completion that is completed when there are some.
  std::variant<std::vector<TrialEvent>, async::Completion<void>> look() {
    const std::lock_guard lock{mutex_};
    if (events_.empty()) return waiting_.emplace();
    changed_.notify_all();
    return std::exchange(events_, {});
  }
  void stop() {
    const std::lock_guard lock{mutex_};
    stops_ = true;
  }

  void set_cores(std::uint32_t cores) { cores_.store(cores, std::memory_order_relaxed); }

  // ---- The objective's side

  std::uint32_t cores() const override { return cores_.load(std::memory_order_relaxed); }

  Value ask(const std::string& name, const Domain& domain) override {
    say(TrialAsks{name, domain});
    return wait_for<TrialAnswer>().value;
  }

  Verdict report(std::uint64_t step, const Metrics& metrics, const Save& save) override {
    const bool saves = save && save_every_ != 0 && step % save_every_ == 0;
    if (saves) say(TrialSaves{step, Bytes{save()}});
    const bool waits = step >= until_;
    say(TrialReports{step, metrics, waits});
    if (!waits) {
      const std::lock_guard lock{mutex_};
      return stops_ ? Verdict::kStop : Verdict::kGoOn;
    }
    const auto [verdict, until] = wait_for<TrialVerdict>();
    until_ = until;
    if (verdict == Verdict::kPause && save && !saves) say(TrialSaves{step, Bytes{save()}});
    return verdict;
  }

 private:
  void run() {
    try {
      for (;;) run(wait_for<TrialStart>());
    } catch (const Left&) {
    }
  }

  void run(TrialStart start) {
    until_ = start.until;
    save_every_ = start.save_every;
    Trial trial{*this, std::move(start.begin), std::move(start.checkpoint), communicator_};
    say(ended(objective_, trial));
  }

  void say(TrialEvent event) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return events_.size() < kEventsMax || ends_; });
    events_.push_back(std::move(event));
    const auto waiting = std::exchange(waiting_, {});
    lock.unlock();
    if (waiting) async::Completion<void>{*waiting}.complete();
  }

  template <class Order>
  Order wait_for() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return std::holds_alternative<Order>(order_) || ends_; });
    if (ends_) throw Left{};
    auto order = std::get<Order>(std::exchange(order_, TrialWait{}));
    return order;
  }

  const Objective objective_;
  std::atomic<std::uint32_t> cores_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TrialOrder order_;
  std::vector<TrialEvent> events_;
  std::optional<async::Completion<void>> waiting_;
  bool stops_ = false;
  bool ends_ = false;
  Communicator* communicator_ = nullptr;

  // Used by the objective's thread only.
  std::uint64_t until_ = 0;
  std::uint64_t save_every_ = 0;

  std::thread thread_;  // the last member, because the thread uses the others
};

TrialRunner::TrialRunner(Objective objective, bool may_report)
    : objective_{std::move(objective)}, thread_{may_report ? std::make_shared<Thread>(objective_) : nullptr} {}
TrialRunner::~TrialRunner() = default;

async::Async<std::vector<TrialEvent>> TrialRunner::next(TrialOrder order) {
  return thread_ == nullptr ? run_here(std::move(order)) : next(thread_, std::move(order));
}

async::Async<std::vector<TrialEvent>> TrialRunner::run_here(TrialOrder order) {
  co_return run(objective_, std::move(std::get<TrialStart>(order)));
}

async::Async<std::vector<TrialEvent>> TrialRunner::next(std::shared_ptr<Thread> thread, TrialOrder order) {
  Communicator* const communicator = std::holds_alternative<TrialStart>(order) ? communicator_of_member() : nullptr;
  thread->take(std::move(order), communicator);
  for (;;) {
    auto found = thread->look();
    if (auto* const events = std::get_if<0>(&found)) co_return std::move(*events);
    auto some = co_await std::get<1>(found).wait(async::Deadline::never());
    if (!some) throw_error(std::move(some).error());
  }
}

std::vector<TrialEvent> TrialRunner::run(const Objective& objective, TrialStart start) {
  NoConnection connection;
  Trial trial{connection, std::move(start.begin), std::move(start.checkpoint)};
  std::vector<TrialEvent> events;
  events.emplace_back(ended(objective, trial));
  return events;
}

void TrialRunner::stop() {
  if (thread_ != nullptr) thread_->stop();
}

void TrialRunner::set_cores(std::uint32_t cores) {
  if (thread_ != nullptr) thread_->set_cores(cores);
}

std::uint64_t own_node() {
  return context().node.value();
}

}  // namespace pharos::ml::detail
