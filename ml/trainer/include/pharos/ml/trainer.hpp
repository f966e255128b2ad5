#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/train_context.hpp>
#include <pharos/ml/train_result.hpp>
#include <pharos/ml/train_worker.hpp>

/// Runs a training function on a group of actors, the ranks:
///
///   ml::Trainer trainer{runtime, {.scaling = {.workers = 4}, .folder = "runs/first", .save_every = 100}};
///   const ml::TrainResult result = trainer.run<&train>(1e-3);
///   std::cout << result.to_text_picture();
///
/// `train` is a function of a TrainContext (see train_context.hpp) and of the arguments that run() is given. If an
/// argument is a Ref, each rank gets its result, which is mapped from the object store and not copied.
///
/// When a rank dies or does not come in time, all ranks begin again, in new processes and from the newest checkpoint.
/// If all ranks have the same state (OnRankDeath::kReplace), only the dead rank is replaced by another process, and the
/// other ranks go on with the interrupted step. An exception of `train` itself ends the training.
namespace pharos::ml {

struct Scaling {
  /// Number of ranks, each of which is an actor in a process of its own.
  std::size_t workers = 1;
  double cpus_per_worker = 1;
  double gpus_per_worker = 0;
  ByteCount memory_per_worker{};
  Strategy placement = Strategy::kPack;
};

/// Is called with each report, on the thread of Trainer::run(). A verdict other than kGoOn stops the training. Steps
/// that are done again after a death are reported again. Each run uses new copies of the callbacks, so that state which
/// a callback keeps starts anew. If a callback throws, the training is stopped, and run() throws the same exception, or
/// the error with which the training ends meanwhile.
using TrainCallback = std::function<Verdict(const TrainReport& report)>;
/// Stops the training after `patience` reports in a row that were not better than the best one by more than `least`.
/// Only reports with this metric count, and steps that are done again after a death count once.
PHAROS_API TrainCallback early_stopping(std::string metric, std::uint64_t patience, double least = 0,
                                        bool is_better_lower = true);

struct TrainerOptions {
  /// The name of the training, in messages and as the name of the group of actors.
  std::string name = "training";
  Scaling scaling{};
  /// The type of the ranks' GPUs, as the label "gpu_type" of nodes has it: "A10". Empty: any type.
  std::string gpu_type{};
  std::uint64_t seed = 0;
  /// The folder for logs, and for checkpoints in its subfolder "checkpoints". It lies on a disk that all nodes see, and
  /// only one training may use it. A training resumes from the checkpoints that it finds there. Empty: nothing is
  /// saved. A training whose state is lost then begins anew: when a rank dies whose state no other rank has, or when a
  /// node has to be emptied.
  std::filesystem::path folder{};
  /// Number of steps between two checkpoints. 0: a checkpoint is only saved when the training is stopped, and when
  /// report() asks for one.
  std::uint64_t save_every = 0;
  /// Number of the newest checkpoints, and of the best ones, that are kept.
  std::size_t keep_last = 2;
  std::size_t keep_best = 0;
  /// The name of the metric that matters: by it the best checkpoints and the best report are chosen.
  std::string metric = "loss";
  bool is_better_lower = true;

  /// Number of deaths of ranks that the training survives. With one more, run() throws. Deaths that are noticed
  /// together count as one.
  std::size_t restarts = 3;
  /// How long ranks wait for each other, and how long the trainer waits for a sign of life from a rank. A rank that
  /// does not come in time counts as dead.
  Duration timeout = std::chrono::seconds{30};
  /// The training is stopped after this time, with a checkpoint. 0: never.
  Duration time{};
  /// How long a training that was told to stop may take to return. After that its ranks are killed, and run() returns a
  /// result with TrainResult::why_unsaved.
  Duration grace = std::chrono::seconds{30};

  std::vector<TrainCallback> callbacks{};
  /// Writes each report as a line of reports.csv and reports.jsonl in the folder. If these files, or those below,
  /// cannot be written, their content waits until there is room on the disk, and the training goes on.
  bool log_reports = true;
  /// Writes the output of each rank to logs/rank-0.log and so on in the folder. Only where the Trainer runs in the
  /// program itself, and not in a worker.
  bool log_ranks = true;
  /// Writes a file for TensorBoard in the folder.
  bool tensorboard = true;
  /// Shows the progress on the standard error: as a line that changes, if that is a terminal, or as a line now and
  /// then.
  bool progress = true;
};

namespace detail {

/// The group of actors that are the ranks of a training, independent of the training function. Owned by a RankGroup;
/// one thread. Calls of the actors do not wait for results, except for connect(), which throws as ml::connect(). The
/// errors of the other calls are in their results. Without end() or kill(), the actors end when their calls have been
/// answered.
class PHAROS_API TrainWorkers {
 public:
  TrainWorkers() = default;
  TrainWorkers(TrainWorkers&&) = delete;
  virtual ~TrainWorkers();

  virtual pharos::detail::CellHandle ready() const = 0;
  virtual void connect(const CommunicatorOptions& options) const = 0;
  virtual pharos::detail::CellHandle run(std::size_t rank, const TrainBegin& begin) const = 0;
  /// Calls next() of rank 0, whose result is a TrainNews.
  virtual pharos::detail::CellHandle next() const = 0;
  /// Calls greet() of a rank, whose result is a TrainSign.
  virtual pharos::detail::CellHandle greet(std::size_t rank) const = 0;
  virtual pharos::detail::CellHandle rejoin(std::size_t rank) const = 0;
  /// Tells the training functions of all ranks to stop.
  virtual void stop() const = 0;
  /// Ends the group after its functions have returned.
  virtual void end() const = 0;
  virtual void kill() const = 0;
  virtual void kill(std::size_t rank) const = 0;
  /// The present actors, by rank, as addresses to compare. Empty if the group has failed.
  virtual std::vector<const void*> who() const = 0;
};
/// Throws what Runtime::spawn_group() throws. Valid as long as the Trainer and its Runtime.
using MakeTrainWorkers = std::function<std::unique_ptr<TrainWorkers>(const ActorGroupOptions& options)>;

template <class Worker>
class GroupOfTrainWorkers final : public TrainWorkers {
 public:
  explicit GroupOfTrainWorkers(ActorGroup<Worker> group) : group_{std::move(group)} {}

  pharos::detail::CellHandle ready() const override { return group_.ready().cell(); }
  void connect(const CommunicatorOptions& options) const override { ml::connect(group_, options); }
  pharos::detail::CellHandle run(std::size_t rank, const TrainBegin& begin) const override {
    return group_.template call<&Worker::run>(rank, begin).cell();
  }
  pharos::detail::CellHandle next() const override { return group_.template call<&Worker::next>(0).cell(); }
  pharos::detail::CellHandle greet(std::size_t rank) const override {
    return group_.template call<&Worker::greet>(rank).cell();
  }
  pharos::detail::CellHandle rejoin(std::size_t rank) const override {
    return group_.template call<&Worker::rejoin>(rank).cell();
  }
  void stop() const override {
    for (const Ref<void>& each : group_.template call_all<&Worker::stop>()) static_cast<void>(each);
  }
  void end() const override { group_.stop(); }
  void kill() const override { group_.kill(); }
  void kill(std::size_t rank) const override { group_.member(rank).kill(); }
  std::vector<const void*> who() const override {
    const auto term = pharos::detail::term_of(*group_.core());
    std::vector<const void*> actors;
    for (const auto& each : term->actors) actors.push_back(each.get());
    return term->failed ? std::vector<const void*>{} : actors;
  }

 private:
  ActorGroup<Worker> group_;
};

}  // namespace detail

/// Runs trainings, one at a time, and owns their actors. The program owns it. One thread at a time; the Runtime must
/// outlive it. run() waits until the training is over, and ends its actors, also when it throws. While the cluster has
/// no room for the ranks, run() waits for room, until Ctrl-C or TrainerOptions::time.
///
/// The constructor throws InvalidArgument for options that make no sense. run() throws what the training function has
/// thrown (UserError, or another code), with the number of the rank; the error of the last death (ActorDied, for
/// instance) if ranks have died more often than `restarts`; FailedPrecondition if the function of one rank has returned
/// and others wait for it in vain (OnRankDeath::kReplace); the error if the actors can never be placed; and the error
/// if the folder cannot be used at the beginning. Ctrl-C stops the training in order: it saves a checkpoint, and run()
/// returns the result so far. TrainResult::why_unsaved says if that went wrong. A second Ctrl-C ends the program.
class PHAROS_API Trainer {
 public:
  Trainer(Runtime& runtime, TrainerOptions options);
  Trainer(Trainer&&) = delete;
  ~Trainer();

  template <auto Train, class... Args>
  TrainResult run(Args&&... args) {
    return run(make<detail::TrainWorker<Train, pharos::detail::SentArgument<Args>...>>(std::forward<Args>(args)...));
  }

 private:
  template <class Worker, class... Args>
  detail::MakeTrainWorkers make(Args&&... args) {
    using Kept = std::tuple<pharos::detail::KeptArgument<Args>...>;
    return [this, kept = std::make_shared<const Kept>(std::forward<Args>(args)...)](const ActorGroupOptions& options) {
      return std::apply(
          [&](const auto&... each) -> std::unique_ptr<detail::TrainWorkers> {
            return std::make_unique<detail::GroupOfTrainWorkers<Worker>>(
                runtime_.spawn_group<Worker>(options, each...));
          },
          *kept);
    };
  }
  TrainResult run(const detail::MakeTrainWorkers& make);

  Runtime& runtime_;
  TrainerOptions options_;
};

}  // namespace pharos::ml
