#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/train_context.hpp>

/// The actors that are the ranks of a training, and the messages that they send to their trainer.
namespace pharos::ml::detail {

/// The training begins or resumes after this step; earlier reports of later steps are void.
struct TrainResumed {
  std::uint64_t step = 0;
  OnRankDeath on_death = OnRankDeath::kBeginAgain;
};
struct TrainReported {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  Metrics metrics{};
};
struct TrainExpects {
  std::uint64_t steps = 0;
};
using TrainEvent = std::variant<TrainResumed, TrainReported, TrainExpects>;
struct TrainNews {
  std::vector<TrainEvent> events{};
  bool is_all = false;  ///< The function has ended; no further events will come.
};
/// A rank's answer to the trainer's question whether its process is alive.
struct TrainSign {
  std::int32_t process = 0;
  bool waits = false;  ///< The rank waits until another rank has been replaced.
};
/// How a rank's function has ended.
struct TrainEnd {
  struct Threw {
    std::uint8_t code = 0;
    std::string story{};
    std::string remedy{};
  };
  std::optional<Threw> threw{};
  bool makes_room = false;  ///< Its worker was told to end, because the rank has to go on in another place.
  std::int32_t process = 0;
  std::vector<TrainEvent> events{};  ///< Events that the trainer has not fetched.
  std::vector<NamedArray> model{};   ///< Rank 0's TrainContext::model().
};

/// Runs a training function as a rank, on a thread of its own. Owned by its actor, which is the only caller. What the
/// function throws is in TrainEnd::threw. When the function has returned, the thread waits until its checkpoints are on
/// disk. Calls of run() and next() that are under way share the thread object with the runner.
class PHAROS_API TrainRunner {
 public:
  using Function = std::function<void(TrainContext&)>;

  explicit TrainRunner(Function function);
  TrainRunner(TrainRunner&&) = delete;
  /// Tells the function to stop at its next report, and waits until it has ended, without a time limit. If calls of
  /// run() or next() are under way, the last of them waits instead.
  ~TrainRunner();

  /// Starts the function, and returns when it has ended. While this call runs, a worker that is told to end waits for
  /// it; the function is then told to stop within 50 ms, and TrainEnd::makes_room is true. One call at a time. Throws
  /// FailedPrecondition if the actor's group has several members and is not connected.
  async::Async<TrainEnd> run(TrainBegin begin);
  /// Called at rank 0: waits until there is at least one new event, or the function has ended, and returns all new
  /// events. One call at a time. Throws FailedPrecondition if run() was never called.
  async::Async<TrainNews> next();
  /// Tells the function to stop at its next report. Does nothing before run().
  void stop();
  TrainSign greet() const;
  /// Gives the function the new communicator: the group has been connected again, because a rank was replaced. Returns
  /// false if the function has ended, or was never started. Throws FailedPrecondition if the group is not connected.
  bool rejoin();

 private:
  class Thread;
  static async::Async<TrainEnd> run(std::shared_ptr<Thread> thread);
  static async::Async<TrainNews> next(std::shared_ptr<Thread> thread);

  const Function function_;
  std::shared_ptr<Thread> thread_;
};

/// The actor class of a rank: runs the function Train with the context and with the arguments of Trainer::run(), which
/// it keeps. A GroupOfTrainWorkers makes and ends these actors. Calls behave as those of TrainRunner.
template <auto Train, class... Args>
class TrainWorker {
 public:
  explicit TrainWorker(Args... args)
      : runner_{[args = std::make_tuple(std::move(args)...)](TrainContext& context) {
          std::apply([&](const auto&... each) { Train(context, each...); }, args);
        }} {}

  async::Async<TrainEnd> run(TrainBegin begin) { return runner_.run(std::move(begin)); }
  async::Async<TrainNews> next() { return runner_.next(); }
  void stop() { runner_.stop(); }
  TrainSign greet() const { return runner_.greet(); }
  bool rejoin() { return runner_.rejoin(); }

 private:
  TrainRunner runner_;
};

}  // namespace pharos::ml::detail
