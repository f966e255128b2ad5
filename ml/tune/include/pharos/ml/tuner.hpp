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

/// Sweeps over parameters, of many trials at once:
///
///   const ml::Space space{{"eta", ml::log_uniform(1e-4, 1e-1)}, {"depth", ml::integers(3, 9)}};
///   ml::Tuner tuner{runtime, {.space = space, .trials = 200, .scheduler = ml::asha({.most = 81})}};
///   const ml::SweepResults results = tuner.run<&objective>(data);
///   std::cout << results.table();
///
/// An objective is a function of the trial (see trial.hpp), of its Params, or of a struct that is read from these, and
/// of what is given to run(): a Ref's result comes once for each actor, mapped where it lies. It returns a number, or
/// Metrics. Or it is a class: constructed from what is given to run(), setup(params), step() again and again, which
/// returns such; if it has save() and load(), its trials can pause and be retried from where they were; if it has
/// reset(params), the next trial begins with that instead of a new object.
namespace pharos::ml {

struct TunerOptions {
  /// What is tried. Empty: what the objective asks for as it runs.
  Space space{};
  std::string metric = "value";
  Goal goal = Goal::kMinimise;
  /// Metrics that are to be at most zero.
  std::vector<std::string> constraints{};
  /// How many. 0: a grid's combinations, each once; or as many as there is time for.
  std::uint64_t trials = 0;
  /// Of a trial at most. 0: until it returns or is stopped.
  std::uint64_t steps = 0;
  /// What proposes them; none: tpe(space). What decides which go on; none: all do.
  std::unique_ptr<Searcher> searcher{};
  std::unique_ptr<TrialScheduler> scheduler{};
  /// What the first trials try, as far as it is given; the searcher adds what is not.
  std::vector<Params> first{};

  /// Trials that run beside each other. 0: as many as there is room for in the cluster.
  std::size_t at_once = 0;
  /// A trial is a group of so many actors, each with these resources.
  std::size_t workers = 1;
  Bundle worker{.cpus = 1};
  Strategy strategy = Strategy::kPack;

  /// How often a trial whose worker has died is begun again, from what it has saved.
  std::uint32_t retries = 3;
  /// A trial from which nothing comes for so long is ended as if its worker had died. 0: never.
  Duration silence{};
  /// No trial begins after that, and those that run are stopped at their next report, or when `grace` is over too.
  /// 0: no limit.
  Duration time{};
  Duration grace = std::chrono::seconds{10};
  /// Trials save what they can go on from each so many steps. 0: when they pause.
  std::uint64_t save_every = 0;
  /// Of so many of the best trials what they saved last is kept when they have ended.
  std::size_t checkpoints = 1;
  /// Trial n is proposed from exactly the results of trials up to n - at_once, in their order: the same seed gives the
  /// same sweep, however long trials take. What is asked for as trials run is drawn by chance.
  bool deterministic = false;

  /// Where the sweep's journal is, and what trials save; one sweep has it. Empty: nowhere, and it cannot be gone on
  /// with.
  std::filesystem::path folder{};
  /// The journal is synced to disk ten times a second: with false only when the sweep ends.
  bool durable = true;
  /// Each report as a line of reports.csv and reports.jsonl in the folder.
  bool log_reports = true;
  /// Files for TensorBoard in the folder, with what its HParams page shows.
  bool tensorboard = false;
  /// How it goes, on the standard error: a table that changes where that is a terminal, else a line now and then.
  bool progress = true;
};

namespace detail {

/// Actors that run one trial together, of whatever type.
class PHAROS_API TrialWorkers {
 public:
  TrialWorkers() = default;
  TrialWorkers(TrialWorkers&&) = delete;
  virtual ~TrialWorkers();

  /// If not, each order of a trial brings its end, and the next may be given before.
  virtual bool may_report() const = 0;
  virtual pharos::detail::CellHandle ready() const = 0;
  virtual void connect() const = 0;
  virtual pharos::detail::CellHandle next(std::size_t worker, const TrialOrder& order) const = 0;
  virtual void stop() const = 0;
  virtual void set_cores(std::uint32_t cores) const = 0;
  virtual pharos::detail::CellHandle node() const = 0;  ///< of the first, as a number
  virtual void end() const = 0;
  virtual void kill() const = 0;
};
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

/// Runs one sweep. Owns the actors of its trials; a thread. Waits in run() until all is done. Failure: options that
/// make no sense (InvalidArgument), a folder that cannot be written to or has another sweep (FailedPrecondition), no
/// room for any worker; what goes wrong in a trial is in the results. Ctrl-C ends the sweep: what there is by then is
/// the result.
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
  /// Goes on with the sweep in the folder, if there is one: what is finished stays, what ran then is begun again from
  /// what it has saved. Options are to be as they were, but for the numbers of trials and what has nothing to do with
  /// what is proposed.
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
