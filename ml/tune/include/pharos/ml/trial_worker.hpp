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

/// Actors that run trials, and what they and their tuner tell each other.
namespace pharos::ml::detail {

// ---- What a worker is told

/// Nothing yet: it says what comes next.
struct TrialWait {};
struct TrialStart {
  TrialBegin begin{};
  std::optional<Bytes> checkpoint{};
  std::uint64_t until = 0;       ///< it goes on after each report of a step before that, and does not wait
  std::uint64_t save_every = 0;  ///< steps; 0: when it is to pause
};
struct TrialAnswer {
  Value value{};
};
struct TrialVerdict {
  Verdict verdict = Verdict::kGoOn;
  std::uint64_t until = 0;
};
using TrialOrder = std::variant<TrialWait, TrialStart, TrialAnswer, TrialVerdict>;

// ---- What it says

/// It waits for an answer.
struct TrialAsks {
  std::string name{};
  Domain domain{};
};
struct TrialReports {
  std::uint64_t step = 0;
  Metrics metrics{};
  bool waits = true;  ///< for the verdict
};
struct TrialSaves {
  std::uint64_t step = 0;
  Bytes checkpoint{};
};
/// Its objective has come back.
struct TrialEnds {
  Metrics metrics{};
  std::optional<std::string> threw{};
};
using TrialEvent = std::variant<TrialAsks, TrialReports, TrialSaves, TrialEnds>;

/// Runs an objective, one trial after the other, on a thread of its own if it may report, else on the actor's: what
/// libraries keep for a thread stays. Owned by its actor; the actor's thread.
class PHAROS_API TrialRunner {
 public:
  using Objective = std::function<Metrics(Trial&)>;

  TrialRunner(Objective objective, bool may_report);
  TrialRunner(TrialRunner&&) = delete;
  /// Stops what runs, at its next report, and waits for it.
  ~TrialRunner();

  /// What has happened since: one thing at least. Of several workers each is told the same.
  async::Async<std::vector<TrialEvent>> next(TrialOrder order);
  /// At its next report the trial learns that it is to stop, though that would not wait.
  void stop();
  /// So many it may use from now on.
  void set_cores(std::uint32_t cores);

 private:
  class Thread;
  static std::vector<TrialEvent> run(const Objective& objective, TrialStart start);
  static async::Async<std::vector<TrialEvent>> next(std::shared_ptr<Thread> thread, TrialOrder order);
  static async::Async<std::vector<TrialEvent>> run_here(TrialRunner* self, TrialOrder order);

  const Objective objective_;
  std::shared_ptr<Thread> thread_;  // null: it does not report
};

/// Where the actor is that asks.
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

/// A function: of the trial, of its parameters, or of a struct that is read from these; and of what else is given.
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

/// The next trial begins with the same object, instead of a new one.
template <class T>
concept Resets = requires(T t, const Params& params) {
  t.reset(params);
};

template <class T>
concept SavesAndLoads = requires(T t) {
  t.load(t.save());
};

/// A class that is set up and does steps until it is stopped.
template <class T>
class StepsOf {
 public:
  template <class Make>
  Metrics run(Trial& trial, const Make& make) {
    if (object_ == nullptr || !Resets<T>) {
      object_.reset();  // before there is another: it may have what there is one of
      object_ = make();
      object_->setup(trial.params());
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
