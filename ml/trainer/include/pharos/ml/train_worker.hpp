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
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/train_context.hpp>

/// Actors that are a training's ranks, and what they tell their trainer.
namespace pharos::ml::detail {

/// It begins, or goes on, from there: reports of later steps do not count any more.
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
  bool is_all = false;  ///< there will be no more
};
/// That a rank's process answers.
struct TrainSign {
  std::int32_t process = 0;
  bool waits = false;  ///< for the ranks that there are when another one has been replaced
};
/// How a rank's function has come back.
struct TrainEnd {
  struct Threw {
    std::uint8_t code = 0;
    std::string story{};
    std::string remedy{};
  };
  std::optional<Threw> threw{};
  bool makes_room = false;  ///< its worker is to end: it goes on elsewhere
  std::int32_t process = 0;
  std::vector<TrainEvent> events{};  ///< that nobody has asked for any more
};

/// Runs a training function as a rank, on a thread of its own. Owned by its actor; the actor's thread.
class PHAROS_API TrainRunner {
 public:
  using Function = std::function<void(TrainContext&)>;

  explicit TrainRunner(Function function);
  TrainRunner(TrainRunner&&) = delete;
  /// Stops what runs, at its next report, and waits for it.
  ~TrainRunner();

  /// Under way as long as the function is: who ends the worker waits for it.
  async::Async<TrainEnd> run(TrainBegin begin);
  /// Of rank 0: what has happened since, one thing at least.
  async::Async<TrainNews> next();
  /// At its next report the training learns that it is to stop.
  void stop();
  TrainSign greet() const;
  /// The group has been connected again, since another rank has been replaced. False: the training does not run.
  bool rejoin();

 private:
  class Thread;
  static async::Async<TrainEnd> run(std::shared_ptr<Thread> thread);
  static async::Async<TrainNews> next(std::shared_ptr<Thread> thread);

  const Function function_;
  std::shared_ptr<Thread> thread_;
};

/// A function of the context and of what else is given.
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
