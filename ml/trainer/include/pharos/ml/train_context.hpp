#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/state.hpp>

namespace pharos {
class Runtime;
}

namespace pharos::ml {

struct ReportOptions {
  /// Weight of this rank's metrics: the number of samples (or tokens) that they are the mean of.
  double weight = 1;
  std::uint64_t epoch = 0;
  /// Saves a checkpoint of this step, whatever TrainerOptions::save_every says. If one rank sets it, all ranks save.
  bool save = false;
  /// Stops the training after this step. If one rank sets it, all ranks stop.
  bool stop = false;
};

/// What happens to a training when one of its ranks dies.
enum class OnRankDeath : std::uint8_t {
  kBeginAgain,  ///< All ranks begin again, at the newest checkpoint.
  kReplace,     ///< Another process takes that rank's place. It gets the state, which is the same on all ranks.
};

namespace detail {

/// What the trainer tells each rank when an attempt begins.
struct TrainBegin {
  std::uint32_t attempt = 0;
  bool replaces = false;  ///< This process takes the place of a rank that has died; the other ranks wait for it.
  std::uint64_t seed = 0;
  std::string folder{};  ///< Folder of the training; empty if there is none, and so no checkpoints.
  std::uint64_t keep_last = 2;
  std::uint64_t keep_best = 0;
  std::string metric{};
  /// Metrics that the user's options look at (TrainerOptions::metric, early_stopping()), and that reports should have.
  std::vector<std::string> asked_for{};
  bool is_better_lower = true;
  std::uint64_t save_every = 0;  ///< In steps; 0: saves only when the training stops or a report asks for a checkpoint.
  Duration timeout = std::chrono::seconds{30};
};

/// The connection of a rank's TrainContext to its trainer. Owned by the rank's TrainRunner, and outlives the context.
/// The function's thread calls it, and any thread may. No function fails. Waits without a time limit end when the
/// runner is destroyed.
class PHAROS_API TrainerLink {
 public:
  TrainerLink() = default;
  TrainerLink(TrainerLink&&) = delete;
  virtual ~TrainerLink();

  /// Upper bound for the number of reports that rank 0 has said and the trainer may not have heard.
  static constexpr std::size_t kUnheardMax = 512;

  /// Called at rank 0: tells the trainer what all ranks together have reported. The trainer ignores a step that it has
  /// heard of before. Waits while too many reports are unheard.
  virtual void say_report(std::uint64_t step, std::uint64_t epoch, const Metrics& metrics) = 0;
  /// Called at rank 0: waits until the trainer has heard everything that was said, or until the worker has to end: then
  /// the trainer gets the rest with the end of the function.
  virtual void wait_until_heard() = 0;
  /// Called at rank 0: tells the trainer that the training begins or resumes after `step`.
  virtual void say_resumed(std::uint64_t step, OnRankDeath on_death) = 0;
  /// Called at rank 0: tells the trainer how many steps there will be.
  virtual void say_expected(std::uint64_t steps) = 0;
  /// Returns true if this rank has been told to stop.
  virtual bool stops() const = 0;
  /// Waits until a rank that has died, or hangs, was replaced, and returns the new ranks. Returns nullopt if that has
  /// not happened in time, or if the worker ends.
  virtual std::optional<Communicator> new_ranks(Duration timeout) = 0;
};

}  // namespace detail

/// A training function's access to the training, of which it is one rank: ranks, reports, checkpoints. Each rank has
/// one, which belongs to its worker and is valid until the function returns. Only the function's thread may use it, and
/// all ranks must call the same functions in the same order:
///
///   void train(ml::TrainContext& context, double lr) {
///     Model model;
///     ml::State state;
///     ml::add_to(state, *model);
///     context.resume(state);
///     while (context.step() < 1000) {
///       const double loss = step(model, lr);
///       if (context.report({{"loss", loss}}) != ml::Verdict::kGoOn) break;
///     }
///   }
///
/// Functions that work with other ranks throw what fails between them: ActorDied, Unavailable or DeadlineExceeded, for
/// instance, when a rank has died. If the function lets that through, the trainer deals with the death (see Trainer).
///
/// If all ranks have the same state (Ddp), a death need not cost more than the step that it interrupts. For that, the
/// state may change only between commit() and tell(), except for values and buffers, and exceptions of operations must
/// be passed to rejoin(). ml::fit() does both:
///
///   context.resume(state, ml::OnRankDeath::kReplace);
///   for (;;) {
///     try {
///       while (context.has_to_tell() || context.step() < 1000) {
///         if (!context.has_to_tell()) {
///           const double loss = backward(model);
///           context.commit({{"loss", loss}});
///           optimizer.step();
///         }
///         if (context.tell() != ml::Verdict::kGoOn) return;
///       }
///       return;
///     } catch (const Exception& why) {
///       if (!context.rejoin(why)) throw;
///       ddp.emplace(context.communicator(), *model);
///     }
///   }
class PHAROS_API TrainContext {
 public:
  /// Made by the worker. Copies of the state lie in the object store of `runtime` until they are on disk. `trainer` and
  /// `runtime` must outlive the context. With a folder, throws as the constructor of Checkpoints.
  TrainContext(detail::TrainerLink& trainer, const detail::TrainBegin& begin, const Communicator& ranks,
               Runtime* runtime);
  TrainContext(TrainContext&&) = delete;
  /// Waits until this rank's part of all checkpoints that were begun is on disk. Rank 0 also waits for the parts of
  /// other ranks, but at most 10 seconds.
  ~TrainContext();

  std::uint32_t rank() const { return ranks_.rank(); }
  std::uint32_t size() const { return ranks_.size(); }
  Communicator& communicator() { return ranks_; }
  /// How often the training was begun before: 0 in the first attempt.
  std::uint32_t attempt() const { return begin_.attempt; }
  /// Returns true if this process has taken the place of a rank that has died. Before resume() it must not work with
  /// the other ranks, because they do not take part in the operations of its start.
  bool is_replacement() const { return begin_.replaces; }
  /// The seed of the training.
  std::uint64_t seed() const { return begin_.seed; }
  /// The name of the metric that matters (TrainerOptions::metric).
  const std::string& metric() const { return begin_.metric; }
  /// The metrics that the user's options look at, so that reports should have them: TrainerOptions::metric, if it is
  /// not the default, and those of early_stopping().
  const std::vector<std::string>& asked_for() const { return begin_.asked_for; }
  bool has_folder() const { return !begin_.folder.empty(); }
  /// Returns true if the best checkpoints are kept (TrainerOptions::keep_best).
  bool keeps_best() const { return begin_.keep_best != 0; }

  /// Makes `state` the content of checkpoints, and loads it from the newest checkpoint, if there is one, or else from
  /// `begin_from`, a checkpoint of another training with the same state; step() is then the step of that checkpoint. In
  /// a replacement it gets the state from the other ranks instead. Throws what Checkpoints::load() and load_from()
  /// throw, InvalidArgument for kReplace with a state that the ranks have divided and for `begin_from` without a
  /// folder, and in a replacement what rejoin() throws. Rank 0 waits until the trainer knows of the beginning. The
  /// objects that the state names must live until forget_state(), or as long as this context.
  void resume(State state, OnRankDeath on_death = OnRankDeath::kBeginAgain,
              const std::filesystem::path& begin_from = {});
  /// Ends the use of the state, so that the objects which it names may be destroyed. No more checkpoints are saved.
  void forget_state();
  /// Says how many steps there will be. Used for the display of progress.
  void expect(std::uint64_t steps);
  std::uint64_t expected_steps() const { return expected_; }
  /// What rank 0 has here when the function returns becomes TrainResult::model.
  std::vector<NamedArray>& model() { return model_; }
  /// Number of steps that have been committed.
  std::uint64_t step() const { return step_; }

  /// Call it after each step. Metrics become the mean over the ranks, by weight. All ranks get the same verdict: kGoOn
  /// or kStop. With kStop a checkpoint of this step is on disk, if there is a folder and a state. Throws UserError on
  /// all ranks, with the numbers of the ranks where it happened, if "loss" or the metric that matters is not finite.
  /// Throws InvalidArgument on all ranks if they report different metrics, and on this rank alone if its weight is
  /// negative or not finite. The step then does not count. Throws what Checkpoints::save() throws, and with kStop what
  /// Checkpoints::finish() throws.
  Verdict report(const Metrics& metrics, const ReportOptions& options = {});
  /// The first part of report(). Once commit() has returned, the step counts, and this rank must finish it whatever
  /// happens to other ranks. If commit() throws an error of the metrics or of other ranks, the step does not count.
  void commit(const Metrics& metrics, const ReportOptions& options = {});
  /// The second part of report(): adds the metrics `more` of rank 0, and saves if that is due. If it throws, it can be
  /// called again after rejoin().
  Verdict tell(const Metrics& more = {});
  /// Returns true if a step was committed, and tell() has not been called for it.
  bool has_to_tell() const { return has_to_tell_; }
  /// Returns true if tell() will save the committed step.
  bool has_to_save() const;
  /// With OnRankDeath::kReplace: call it with an exception that an operation has thrown. Waits for the replacement of a
  /// rank that has died, up to twice TrainerOptions::timeout and 5 seconds more. Returns true if there is one; state
  /// and step are then those of the rank that was furthest, as they were at its last commit(), and communicator() is a
  /// new one. Returns false if the exception does not come from a death, or if no process has come in time. Throws if
  /// the state cannot be copied: ObjectLost if no living rank has the complete state, and what
  /// Checkpoints::go_on_with() throws.
  bool rejoin(const Exception& why);

  /// Returns the mean over the ranks, by weight, of metrics that are not reported by themselves. All ranks call it.
  /// Throws InvalidArgument as report().
  Metrics mean(const Metrics& metrics, double weight);
  /// Throws UserError on all ranks, with the numbers of the ranks where it happened, if `own` is not finite on one of
  /// them. All ranks call it.
  void check_number(const std::string& name, double own);
  /// The metrics of the last commit(), over all ranks, and those that this rank has passed to tell(). Valid until the
  /// next commit() or rejoin().
  const Metrics& last() const { return committed_.metrics; }
  /// Waits until all checkpoints that were begun are on disk, on all ranks. Throws what Checkpoints::finish() throws.
  /// Without a folder it does nothing. The worker calls it when the function has returned.
  void finish_saving();

 private:
  struct Sum;
  struct Kept;
  /// The result of a commit, which is the same on all ranks.
  struct Committed {
    std::uint64_t step = 0;
    std::uint64_t epoch = 0;
    bool saves = false;
    bool stops = false;
    Metrics metrics{};  ///< means over the ranks, and the metrics given to tell()

    auto pharos_fields() { return std::tie(step, epoch, saves, stops, metrics); }
  };

  void say_where_it_begins();
  Sum sum_up(const Metrics& metrics, double weight, bool saves, bool stops);
  void check_names(const Metrics& metrics, double hash, double sum, double squares);
  void check_mean(const Metrics& metrics, const Metrics& means, const std::string& name);
  bool is_replaced_after(const Exception& why);
  void check_is_shared() const;
  void keep();
  void keep_told();
  void put_back();
  void take_state_of_furthest(bool ranks_are_new);
  void copy_state();
  void share(std::vector<std::byte>& bytes, std::uint32_t from);

  detail::TrainerLink& trainer_;
  const detail::TrainBegin begin_;
  Communicator ranks_;
  std::optional<Checkpoints> checkpoints_;
  State state_;
  bool has_state_ = false;
  OnRankDeath on_death_ = OnRankDeath::kBeginAgain;
  bool has_said_ = false;
  std::uint64_t step_ = 0;
  std::uint64_t expected_ = 0;
  Committed committed_;
  std::deque<Committed> told_;  // with kReplace: the newest reports, because rank 0 may die before they were heard
  bool has_to_tell_ = false;
  bool has_whole_state_ = false;
  std::vector<NamedArray> model_;
  /// With kReplace: values, and slices that change before a commit, as they were at the last commit.
  std::vector<std::vector<std::byte>> kept_values_;
  std::vector<std::vector<std::byte>> kept_slices_;
};

}  // namespace pharos::ml
