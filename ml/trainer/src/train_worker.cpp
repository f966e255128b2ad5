#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <thread>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/member.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/train_worker.hpp>

namespace pharos::ml::detail {
namespace {

using namespace std::chrono_literals;

// So many events may wait until the trainer fetches them; further reports block. As many again may be on their way to
// the trainer, so that both together stay below kUnheardMax.
constexpr std::size_t kEventsMax = TrainerLink::kUnheardMax / 2 - 1;
constexpr Duration kNoticeTime = 50ms;  // interval in which run() checks whether the worker has to end

}  // namespace

/// The thread on which the training function runs, and the connection between it and the actor. Owned by TrainRunner
/// and by the coroutines of run() and next().
class TrainRunner::Thread final : public TrainerLink {
 public:
  Thread(Function function, TrainBegin begin, const Communicator& ranks)
      : function_{std::move(function)}, begin_{std::move(begin)}, ranks_{ranks}, thread_{[this] { run(); }} {}
  ~Thread() override {
    stop();
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // ---- The actor's side

  /// Returns news, or a completion that will be completed when there are news.
  std::variant<TrainNews, async::Completion<void>> look() {
    const std::lock_guard lock{mutex_};
    changed_.notify_all();
    if (events_.empty() && !end_) return reader_.emplace();
    return TrainNews{std::exchange(events_, {}), end_.has_value()};
  }
  std::variant<TrainEnd, async::Completion<void>> look_for_end() {
    const std::lock_guard lock{mutex_};
    if (!end_) return waiter_.emplace();
    TrainEnd end = *end_;
    end.events = std::exchange(events_, {});
    return end;
  }
  bool waits() {
    const std::lock_guard lock{mutex_};
    return waits_;
  }
  bool rejoin(const Communicator& ranks) {
    const std::lock_guard lock{mutex_};
    if (end_) return false;
    new_ranks_ = ranks;
    changed_.notify_all();
    return true;
  }
  void stop() { stops_.store(true, std::memory_order_relaxed); }
  void make_room() {
    stop();
    {
      const std::lock_guard lock{mutex_};
      makes_room_ = true;
    }
    changed_.notify_all();
  }

  // ---- The function's side

  void say_report(std::uint64_t step, std::uint64_t epoch, const Metrics& metrics) override {
    say(TrainReported{step, epoch, metrics});
  }
  void say_resumed(std::uint64_t step, OnRankDeath on_death) override { say(TrainResumed{step, on_death}); }
  void say_expected(std::uint64_t steps) override { say(TrainExpects{steps}); }
  void wait_until_heard() override {
    std::unique_lock lock{mutex_};
    // The trainer has heard everything when it has fetched all events and asks for more. If the worker has to end, the
    // trainer does not ask again, and gets the events with the TrainEnd.
    changed_.wait(lock, [this] { return (events_.empty() && reader_) || makes_room_ || ends_; });
  }
  bool stops() const override { return stops_.load(std::memory_order_relaxed); }
  std::optional<Communicator> new_ranks(Duration timeout) override {
    std::unique_lock lock{mutex_};
    waits_ = true;
    changed_.wait_for(lock, timeout, [this] { return new_ranks_ || ends_; });
    waits_ = false;
    return std::exchange(new_ranks_, std::nullopt);
  }

 private:
  void run() {
    TrainEnd end;
    try {
      Runtime runtime;  // the runtime of the worker, which exists already
      TrainContext context{*this, begin_, ranks_, &runtime};
      function_(context);
      context.finish_saving();
      if (context.rank() == 0) end.model = std::move(context.model());
    } catch (...) {
      const Error error = pharos::detail::current_exception();
      end.threw = TrainEnd::Threw{static_cast<std::uint8_t>(error.code()), error.story(), error.remedy()};
    }
    std::fflush(nullptr);  // the trainer may kill this process as soon as it knows of the end
    std::unique_lock lock{mutex_};
    end.makes_room = makes_room_;
    end.process = ::getpid();
    end_ = std::move(end);
    tell(lock, {std::exchange(reader_, {}), std::exchange(waiter_, {})});
  }

  void say(TrainEvent event) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return events_.size() < kEventsMax || ends_; });
    events_.push_back(std::move(event));
    tell(lock, {std::exchange(reader_, {})});
  }
  using Waiting = std::optional<async::Completion<void>>;
  static void tell(std::unique_lock<std::mutex>& lock, std::initializer_list<Waiting> all) {
    lock.unlock();
    for (const Waiting& each : all) {
      if (each) async::Completion<void>{*each}.complete();
    }
  }

  const Function function_;
  const TrainBegin begin_;
  const Communicator ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TrainEvent> events_;
  std::optional<Communicator> new_ranks_;
  std::optional<TrainEnd> end_;
  Waiting reader_;  // completes the call that waits for news
  Waiting waiter_;  // completes the call that waits for the end
  std::atomic<bool> stops_ = false;
  bool makes_room_ = false;
  bool waits_ = false;  // the function waits for new_ranks_
  bool ends_ = false;
  std::thread thread_;  // the last member, because the thread uses all others
};

TrainRunner::TrainRunner(Function function) : function_{std::move(function)} {}
TrainRunner::~TrainRunner() = default;

async::Async<TrainEnd> TrainRunner::run(TrainBegin begin) {
  const Communicator ranks = pharos::member().size > 1 ? communicator() : Communicator::alone();
  thread_.reset();
  thread_ = std::make_shared<Thread>(function_, std::move(begin), ranks);
  return run(thread_);
}

async::Async<TrainEnd> TrainRunner::run(std::shared_ptr<Thread> thread) {
  for (;;) {
    auto found = thread->look_for_end();
    if (auto* const end = std::get_if<0>(&found)) co_return std::move(*end);
    const auto deadline = async::Deadline::in(kNoticeTime);
    static_cast<void>(co_await std::get<1>(found).wait(deadline));
    if (pharos::stopping()) thread->make_room();
  }
}

async::Async<TrainNews> TrainRunner::next() {
  if (thread_ == nullptr)
    throw_error(Error{ErrorCode::kFailedPrecondition, "no training has been started on this rank"});
  return next(thread_);
}

async::Async<TrainNews> TrainRunner::next(std::shared_ptr<Thread> thread) {
  for (;;) {
    auto found = thread->look();
    if (auto* const news = std::get_if<0>(&found)) co_return std::move(*news);
    auto some = co_await std::get<1>(found).wait(async::Deadline::never());
    if (!some) throw_error(std::move(some).error());
  }
}

TrainSign TrainRunner::greet() const {
  return {::getpid(), thread_ != nullptr && thread_->waits()};
}

bool TrainRunner::rejoin() {
  return thread_ != nullptr && thread_->rejoin(communicator());
}

void TrainRunner::stop() {
  if (thread_ != nullptr) thread_->stop();
}

}  // namespace pharos::ml::detail
