#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/actors/signature.hpp>
#include <pharos/async/async.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/trial.hpp>

/// The actors that run trials, and the messages between them and their tuner.
namespace pharos::ml::detail {

// ---- Orders: from the tuner to a worker

/// No order: the tuner only waits for the next events.
struct TrialWait {};
/// The worker starts a trial.
struct TrialStart {
  TrialBegin begin{};
  std::optional<Bytes> checkpoint{};
  std::uint64_t until = 0;       ///< the trial does not wait for verdicts on reports of earlier steps
  std::uint64_t save_every = 0;  ///< the trial saves every so many steps; 0: only when it pauses
};
/// The reply to TrialAsks.
struct TrialAnswer {
  Value value{};
};
/// The reply to a report that waits.
struct TrialVerdict {
  Verdict verdict = Verdict::kGoOn;
  std::uint64_t until = 0;  ///< as in TrialStart
};
using TrialOrder = std::variant<TrialWait, TrialStart, TrialAnswer, TrialVerdict>;

// ---- Events: from a worker to the tuner

/// The trial asks for a parameter, and waits for a TrialAnswer.
struct TrialAsks {
  std::string name{};
  Domain domain{};
};
struct TrialReports {
  std::uint64_t step = 0;
  Metrics metrics{};
  bool waits = true;  ///< the trial waits for a TrialVerdict
};
struct TrialSaves {
  std::uint64_t step = 0;
  Bytes checkpoint{};
};
/// The objective has returned or thrown.
struct TrialEnds {
  Metrics metrics{};
  std::optional<std::string> threw{};  ///< the exception as text
};
using TrialEvent = std::variant<TrialAsks, TrialReports, TrialSaves, TrialEnds>;

/// Runs an objective for one trial after another. An objective that may report runs on a thread of its own, which lives
/// as long as the runner, so that what libraries keep for each thread lasts from trial to trial. Any other objective
/// runs on the thread that calls next(). Owned by its actor, whose methods call it. What the objective throws is in
/// TrialEnds::threw. Calls of next() that are under way share the thread object with the runner.
class PHAROS_API TrialRunner {
 public:
  using Objective = std::function<Metrics(Trial&)>;

  TrialRunner(Objective objective, bool may_report);
  TrialRunner(TrialRunner&&) = delete;
  /// Stops the running trial at its next report, and waits for its objective to return, without a time limit. If the
  /// objective waits for the tuner, an exception that is no std::exception is thrown through it. If a call of next() is
  /// under way, the end of that call waits instead.
  ~TrialRunner();

  /// Takes an order, and returns the events since the last call, at least one. If a trial has several workers, each of
  /// them gets the TrialStart, and only the first one gets answers and verdicts. One call at a time, unless the
  /// objective cannot report: then each order must be a TrialStart. Throws FailedPrecondition if the actor's group has
  /// several members and is not connected.
  async::Async<std::vector<TrialEvent>> next(TrialOrder order);
  /// The next report of the trial that does not wait for a verdict returns kStop. Does nothing if the objective cannot
  /// report.
  void stop();
  /// Sets the number that Trial::cores() returns from now on.
  void set_cores(std::uint32_t cores);

 private:
  class Thread;
  static std::vector<TrialEvent> run(const Objective& objective, TrialStart start);
  static async::Async<std::vector<TrialEvent>> next(std::shared_ptr<Thread> thread, TrialOrder order);
  async::Async<std::vector<TrialEvent>> run_here(TrialOrder order);

  const Objective objective_;
  std::shared_ptr<Thread> thread_;  // null if the objective does not report
};

/// Returns the node of the actor that calls, as a number.
PHAROS_API std::uint64_t own_node();

// ---- Objectives

template <class F>
struct FirstParameter;
template <class P, class... Rest>
struct FirstParameter<pharos::detail::Parameters<P, Rest...>> {
  using Type = std::remove_cvref_t<P>;
};

template <auto Objective, class... Args>
Metrics run_objective(Trial& trial, const Args&... args) {
  if constexpr (std::is_invocable_v<decltype(Objective), Trial&, const Args&...>) {
    return Objective(trial, args...);
  } else if constexpr (std::is_invocable_v<decltype(Objective), const Params&, const Args&...>) {
    return Objective(trial.params(), args...);
  } else {
    using Signature = pharos::detail::Signature<std::remove_cv_t<decltype(Objective)>>;
    using Fields = typename FirstParameter<typename Signature::Params>::Type;
    return Objective(read<Fields>(trial.params()), args...);
  }
}

/// The actor for an objective that is a function. The first argument of the function is the trial, the trial's
/// parameters, or a struct that is read from these. The further arguments are those of Tuner::run(). A
/// GroupOfTrialWorkers makes and ends it; its calls behave as those of TrialRunner.
template <auto Objective, class... Args>
class FunctionWorker {
 public:
  static constexpr bool kMayReport = std::is_invocable_v<decltype(Objective), Trial&, const Args&...>;

  explicit FunctionWorker(Args... args)
      : runner_{[args = std::make_tuple(std::move(args)...)](Trial& trial) {
                  return std::apply([&](const auto&... each) { return run_objective<Objective>(trial, each...); },
                                    args);
                },
                kMayReport} {}

  async::Async<std::vector<TrialEvent>> next(TrialOrder order) { return runner_.next(std::move(order)); }
  void stop() { runner_.stop(); }
  void set_cores(std::uint32_t cores) { runner_.set_cores(cores); }
  std::uint64_t node() { return own_node(); }

 private:
  TrialRunner runner_;
};

template <class T>
concept Steps = requires(T t, const Params& params) {
  t.setup(params);
  t.step();
};

/// An object of such a class runs one trial after another: reset() prepares it for the next trial.
template <class T>
concept Resets = requires(T t, const Params& params) {
  t.reset(params);
};

template <class T>
concept SavesAndLoads = requires(T t) {
  t.load(t.save());
};

/// Runs trials of an objective that is a class: sets an object up, and calls step() until the trial is stopped. Owned
/// by the objective of a ClassWorker; used on the objective's thread. What the object throws leaves run(). The object
/// lives until the next trial needs a new one, or until the worker ends. An object whose setup() throws ends at once.
template <class T>
class StepsOf {
 public:
  template <class Make>
  Metrics run(Trial& trial, const Make& make) {
    if (object_ == nullptr || !Resets<T>) {
      // The old object goes before the new one comes: it may own something that exists only once.
      object_.reset();
      auto made = make();
      made->setup(trial.params());
      object_ = std::move(made);  // only now, because reset() needs an object that was set up
    } else if constexpr (Resets<T>) {
      object_->reset(trial.params());
    }
    if constexpr (SavesAndLoads<T>) {
      using Saved = std::remove_cvref_t<decltype(object_->save())>;
      if (auto saved = trial.checkpoint<Saved>()) object_->load(*std::move(saved));
    }
    for (;;) {
      Metrics metrics = object_->step();
      Verdict verdict{};
      if constexpr (SavesAndLoads<T>) {
        verdict = trial.report(metrics, [&] { return object_->save(); });
      } else {
        verdict = trial.report(metrics);
      }
      if (verdict != Verdict::kGoOn) return metrics;
    }
  }

 private:
  std::unique_ptr<T> object_;
};

/// The actor for an objective that is a class, whose objects are constructed from the arguments of Tuner::run(). A
/// GroupOfTrialWorkers makes and ends it; its calls behave as those of TrialRunner.
template <class T, class... Args>
class ClassWorker {
 public:
  static constexpr bool kMayReport = true;

  explicit ClassWorker(Args... args)
      : runner_{
            [steps = std::make_shared<StepsOf<T>>(), args = std::make_tuple(std::move(args)...)](Trial& trial) mutable {
              return steps->run(trial, [&] {
                return std::apply([](const auto&... each) { return std::make_unique<T>(each...); }, args);
              });
            },
            kMayReport} {}

  async::Async<std::vector<TrialEvent>> next(TrialOrder order) { return runner_.next(std::move(order)); }
  void stop() { runner_.stop(); }
  void set_cores(std::uint32_t cores) { runner_.set_cores(cores); }
  std::uint64_t node() { return own_node(); }

 private:
  TrialRunner runner_;
};

}  // namespace pharos::ml::detail
