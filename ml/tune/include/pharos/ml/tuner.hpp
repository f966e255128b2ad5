#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/actor_group.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/searcher.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial.hpp>
#include <pharos/ml/trial_scheduler.hpp>
#include <pharos/ml/trial_worker.hpp>

/// Sweeps over parameters, with many trials at the same time:
///
///   const ml::Space space{{"eta", ml::log_uniform(1e-4, 1e-1)}, {"depth", ml::integers(3, 9)}};
///   ml::Tuner tuner{runtime, {.space = space, .trials = 200, .scheduler = ml::asha({.most = 81})}};
///   const ml::SweepResults results = tuner.run<&objective>(data);
///   std::cout << results.table();
///
/// An objective is a function or a class. The first argument of a function is the trial (see trial.hpp), its Params, or
/// a struct that is read from these; the further arguments are those of run(). Each actor gets them once; if one is a
/// Ref, the actor gets its result, and a large result is mapped from shared memory. The function returns a number or
/// Metrics.
///
/// A class is constructed from the arguments of run(). The worker calls setup(params) and then step() again and again,
/// which returns a number or Metrics. If the class has save() and load(), its trials can pause, and continue from their
/// checkpoint when a worker has died. If it has reset(params), the next trial begins with reset() on the same object
/// instead of a new object.
namespace pharos::ml {

struct TunerOptions {
  /// The parameters to try. If it is empty, the parameters are those that the objective asks for as it runs.
  Space space{};
  std::string metric = "value";
  Goal goal = Goal::kMinimise;
  /// Names of metrics that must be at most zero.
  std::vector<std::string> constraints{};
  /// Number of trials. 0: the number of combinations if the space has grids, and otherwise as many trials as `time`
  /// allows.
  std::uint64_t trials = 0;
  /// Number of steps after which a trial is complete. 0: a trial runs until it returns or is stopped.
  std::uint64_t steps = 0;
  /// Proposes the parameters of trials. Null: grid_search(space) if the space has grids, and otherwise tpe(space).
  std::unique_ptr<Searcher> searcher{};
  /// Decides which trials go on; null: all do.
  std::unique_ptr<TrialScheduler> scheduler{};
  /// Parameters of the first trials. The searcher adds the parameters that are missing.
  std::vector<Params> first{};

  /// Number of trials that run at the same time. 0: as many as the cluster has room for.
  std::size_t at_once = 0;
  /// Each trial runs on a group of `workers` actors, each of which has the resources `worker`.
  std::size_t workers = 1;
  Bundle worker{.cpus = 1};
  Strategy strategy = Strategy::kPack;

  /// Number of times that a trial is started again, from its last checkpoint, after its worker has died.
  std::uint32_t retries = 3;
  /// A trial that sends nothing for this long is ended as if its worker had died: its worker is killed. 0: never.
  Duration silence{};
  /// After this time no trial begins. Running trials are stopped at their next report, or killed when `grace` is over
  /// too. 0: no limit.
  Duration time{};
  Duration grace = std::chrono::seconds{10};
  /// Trials save a checkpoint every so many steps. 0: only when they pause.
  std::uint64_t save_every = 0;
  /// Number of the best trials whose last checkpoint is kept after they have ended.
  std::size_t checkpoints = 1;
  /// Trial n is proposed from exactly the results of trials 0 to n - at_once, in their order. Thus the same seed gives
  /// the same sweep, however long trials take. Parameters that trials ask for as they run are then sampled at random.
  /// `at_once` must be set, too.
  bool deterministic = false;

  /// The folder of the sweep's journal and of its checkpoints; each sweep has its own. Empty: nothing is kept, and the
  /// sweep cannot be continued.
  std::filesystem::path folder{};
  /// True: the journal is synced to disk ten times a second, and when the sweep ends. False: it is written to the
  /// kernel but never synced.
  bool durable = true;
  /// Writes each report as a line to reports.csv and reports.jsonl in the folder.
  bool log_reports = true;
  /// Writes files for TensorBoard and its HParams page in the folder.
  bool tensorboard = false;
  /// Shows progress on the standard error: on a terminal as a table that is redrawn, elsewhere as a line now and then.
  bool progress = true;
};

namespace detail {

/// The actors that run one trial together, whatever the type of the actors is. The slot that they run in owns them; one
/// thread. Only connect() waits for results, and throws as ml::connect(). The errors of the other calls are in their
/// results. Without end() or kill(), the actors end when their calls have been answered.
class PHAROS_API TrialWorkers {
 public:
  TrialWorkers() = default;
  TrialWorkers(TrialWorkers&&) = delete;
  virtual ~TrialWorkers();

  /// Returns false if the objective cannot report. Then the result of next() with a TrialStart has the end of the
  /// trial, and the next TrialStart may be sent before that.
  virtual bool may_report() const = 0;
  virtual pharos::detail::CellHandle ready() const = 0;
  virtual void connect() const = 0;
  virtual pharos::detail::CellHandle next(std::size_t worker, const TrialOrder& order) const = 0;
  virtual void stop() const = 0;
  virtual void set_cores(std::uint32_t cores) const = 0;
  virtual pharos::detail::CellHandle node() const = 0;  ///< node of the first worker, as a number
  virtual void end() const = 0;
  virtual void kill() const = 0;
};
/// Throws what Runtime::spawn_group() throws. Valid as long as the Tuner and its Runtime.
using MakeTrialWorkers = std::function<std::unique_ptr<TrialWorkers>(const ActorGroupOptions& options)>;

template <class Worker>
class GroupOfTrialWorkers final : public TrialWorkers {
 public:
  explicit GroupOfTrialWorkers(ActorGroup<Worker> group) : group_{std::move(group)} {}

  bool may_report() const override { return Worker::kMayReport; }
  pharos::detail::CellHandle ready() const override { return group_.ready().cell(); }
  void connect() const override { ml::connect(group_); }
  pharos::detail::CellHandle next(std::size_t worker, const TrialOrder& order) const override {
    return group_.template call<&Worker::next>(worker, order).cell();
  }
  void stop() const override {
    for (const Ref<void>& each : group_.template call_all<&Worker::stop>()) static_cast<void>(each);
  }
  void set_cores(std::uint32_t cores) const override {
    static_cast<void>(group_.template call<&Worker::set_cores>(0, cores));
  }
  pharos::detail::CellHandle node() const override { return group_.template call<&Worker::node>(0).cell(); }
  void end() const override { group_.stop(); }
  void kill() const override { group_.kill(); }

 private:
  ActorGroup<Worker> group_;
};

}  // namespace detail

/// Runs one sweep: run() or restore() may be called once, by one thread, and return when the sweep has ended. That
/// thread also calls the searcher and the scheduler. The program owns the tuner, and the runtime must outlive it. The
/// tuner owns the actors of the trials, and ends them when run() returns or throws.
///
/// The constructor throws InvalidArgument if options make no sense. run() throws AlreadyExists if the folder has a
/// sweep, FailedPrecondition if another tuner works in the folder or if this tuner has run its sweep, an error of the
/// system as soon as the folder cannot be written to, Exhausted if the object store has no room for a checkpoint, the
/// actors' error if no worker can be made, and what the searcher or the scheduler throws. After an error during the
/// sweep, restore() of a new tuner can continue it. What goes wrong in a trial is in the results. Ctrl-C ends the
/// sweep, and run() returns the results so far; trials that still run are killed, and are kRunning in the results. A
/// second Ctrl-C ends the program.
class PHAROS_API Tuner {
 public:
  Tuner(Runtime& runtime, TunerOptions options);
  Tuner(Tuner&&) = delete;
  ~Tuner();

  template <auto Objective, class... Args>
  SweepResults run(Args&&... args) {
    return run(
        make<detail::FunctionWorker<Objective, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
        Existing::kRefused);
  }
  template <class T, class... Args>
  SweepResults run(Args&&... args) {
    return run(make<detail::ClassWorker<T, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
               Existing::kRefused);
  }
  /// Continues the sweep in the folder, or begins one if the folder has none. Finished trials keep their results;
  /// trials that were running start again from their last checkpoints. The options must be as before, except for the
  /// number of trials and for options that have no influence on proposals and decisions. Throws as run(), and
  /// FailedPrecondition if the journal does not fit the options. If PHAROS_TUNE_RESUME is set in the environment, run()
  /// acts as restore().
  template <auto Objective, class... Args>
  SweepResults restore(Args&&... args) {
    return run(
        make<detail::FunctionWorker<Objective, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
        Existing::kContinued);
  }
  template <class T, class... Args>
  SweepResults restore(Args&&... args) {
    return run(make<detail::ClassWorker<T, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...),
               Existing::kContinued);
  }

 private:
  enum class Existing : std::uint8_t { kRefused, kContinued };

  template <class Worker, class... Args>
  detail::MakeTrialWorkers make(Args&&... args) {
    using Kept = std::tuple<pharos::detail::KeptArgument<Args>...>;
    return [this, kept = std::make_shared<const Kept>(std::forward<Args>(args)...)](const ActorGroupOptions& options) {
      return std::apply(
          [&](const auto&... each) -> std::unique_ptr<detail::TrialWorkers> {
            return std::make_unique<detail::GroupOfTrialWorkers<Worker>>(
                runtime_.spawn_group<Worker>(options, each...));
          },
          *kept);
    };
  }
  SweepResults run(detail::MakeTrialWorkers make, Existing existing);

  Runtime& runtime_;
  TunerOptions options_;
};

}  // namespace pharos::ml
