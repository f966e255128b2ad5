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

/// Trains on a group of actors, the ranks:
///
///   ml::Trainer trainer{runtime, {.scaling = {.workers = 4}, .folder = "runs/first", .save_every = 100}};
///   const ml::TrainResult result = trainer.run<&train>(1e-3);
///   std::cout << result.to_text_picture();
///
/// `train` is a function of a TrainContext (see train_context.hpp) and of what is given to run(): a Ref's result comes
/// once for each rank, mapped where it lies. When a rank dies or does not come in time, the group is made anew, and
/// goes on from the newest checkpoint; or, where all ranks have the same state (OnRankDeath::kReplace), another process
/// takes its place, and the others go on with the step they were at. What `train` throws by itself ends the training.
namespace pharos::ml {

struct Scaling {
  /// Ranks: actors, each in a process of its own.
  std::size_t workers = 1;
  double cpus_per_worker = 1;
  double gpus_per_worker = 0;
  ByteCount memory_per_worker{};
  Strategy placement = Strategy::kPack;
};

/// Looks at each report; the training goes on until one says otherwise. Each run begins with copies of them, and with
/// what they keep as it was given. When one throws, the training is stopped, and run() throws that. The trainer's
/// thread.
using TrainCallback = std::function<Verdict(const TrainReport& report)>;
/// Stops when so many reports that have the metric were no better than the best by `least`. Steps that are done again,
/// since a rank has died, count once.
PHAROS_API TrainCallback early_stopping(std::string metric, std::uint64_t patience, double least = 0,
                                        bool is_better_lower = true);

struct TrainerOptions {
  /// For messages.
  std::string name = "training";
  Scaling scaling{};
  /// As the label "gpu_type" of the ranks' nodes says it: "A10". Empty: any.
  std::string gpu_type{};
  std::uint64_t seed = 0;
  /// Where logs are, and checkpoints, in its folder "checkpoints"; one training has it, on a disk that all nodes have.
  /// What is there is gone on with. Empty: nowhere, and what no rank has any more is begun anew: when one dies whose
  /// state no other has, or when a node is to be emptied.
  std::filesystem::path folder{};
  /// A checkpoint each so many steps. 0: when the training is stopped, and where report() asks for one.
  std::uint64_t save_every = 0;
  /// So many of the newest checkpoints stay, and so many of the best.
  std::size_t keep_last = 2;
  std::size_t keep_best = 0;
  /// What matters.
  std::string metric = "loss";
  bool is_better_lower = true;

  /// So often it may be begun again because a rank has died.
  std::size_t restarts = 3;
  /// Ranks wait for each other so long, and the trainer for a sign of life of each: then the one that has not come is
  /// taken for dead.
  Duration timeout = std::chrono::seconds{30};
  /// After that it is stopped, with a checkpoint. 0: never.
  Duration time{};
  /// For a training that is to stop to come back.
  Duration grace = std::chrono::seconds{30};

  std::vector<TrainCallback> callbacks{};
  /// Each report as a line of reports.csv and reports.jsonl in the folder. What cannot be written, there and in the
  /// files below, waits for room on the disk; the training goes on.
  bool log_reports = true;
  /// What each rank prints as logs/rank-0.log and so on in the folder; where the trainer is in a program itself.
  bool log_ranks = true;
  /// A file for TensorBoard in the folder.
  bool tensorboard = true;
  /// How it goes, on the standard error: a line that changes where that is a terminal, else one now and then.
  bool progress = true;
};

namespace detail {

/// A training's ranks, of whatever function.
class PHAROS_API TrainWorkers {
 public:
  TrainWorkers() = default;
  TrainWorkers(TrainWorkers&&) = delete;
  virtual ~TrainWorkers();

  virtual pharos::detail::CellHandle ready() const = 0;
  virtual void connect(const CommunicatorOptions& options) const = 0;
  virtual pharos::detail::CellHandle run(std::size_t rank, const TrainBegin& begin) const = 0;
  virtual pharos::detail::CellHandle next() const = 0;  ///< of rank 0
  /// Gives a TrainSign.
  virtual pharos::detail::CellHandle greet(std::size_t rank) const = 0;
  virtual pharos::detail::CellHandle rejoin(std::size_t rank) const = 0;
  virtual void stop() const = 0;
  virtual void end() const = 0;
  virtual void kill() const = 0;
  virtual void kill(std::size_t rank) const = 0;
  /// By rank: the actors that are there now, as something to compare. None: the group has failed.
  virtual std::vector<const void*> who() const = 0;
};
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

/// Runs trainings, one at a time. Owns their actors. Waits in run() until the training is over. Throws InvalidArgument
/// for options that make no sense; UserError, or what else it is, for what the function has thrown, with the rank;
/// ActorDied when ranks have died more often than `restarts`; what has kept it from its folder. Ctrl-C ends it in
/// order: with a checkpoint, and what there is by then as the result; TrainResult::why_unsaved says if that went wrong.
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
