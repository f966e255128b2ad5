#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/state.hpp>

namespace pharos {
class Runtime;
}

namespace pharos::ml {

struct ReportOptions {
  /// So much this rank's metrics count: how many samples, or tokens, they are the mean of.
  double weight = 1;
  std::uint64_t epoch = 0;
  /// A checkpoint of this step, whatever TrainerOptions::save_every says. If one rank wants it, all save.
  bool save = false;
};

/// What becomes of a training when one of its ranks dies.
enum class OnRankDeath : std::uint8_t {
  kBeginAgain,  ///< All ranks begin again, at the newest checkpoint.
  kReplace,     ///< Another process takes that rank's place, and has its state from the others, which have the same.
};

namespace detail {

/// What the trainer tells each rank.
struct TrainBegin {
  std::uint32_t attempt = 0;
  bool replaces = false;  ///< one that has died; the others wait for it
  std::uint64_t seed = 0;
  std::string folder{};  ///< for checkpoints; empty: none
  std::uint64_t keep_last = 2;
  std::uint64_t keep_best = 0;
  std::string metric{};
  bool is_better_lower = true;
  std::uint64_t save_every = 0;  ///< steps; 0: when it is told to stop
  Duration timeout = std::chrono::seconds{30};
};

/// The other end of a rank's training. Any thread.
class PHAROS_API TrainLine {
 public:
  TrainLine() = default;
  TrainLine(TrainLine&&) = delete;
  virtual ~TrainLine();

  /// Reports that have been said, and that the trainer may not have, at most.
  static constexpr std::size_t kUnheardMax = 512;

  /// Rank 0's: what all ranks together have reported. One that the trainer has heard already does not count.
  virtual void say_report(std::uint64_t step, std::uint64_t epoch, const Metrics& metrics) = 0;
  /// Rank 0's: waits until the trainer has heard all that was said.
  virtual void wait_until_heard() = 0;
  /// Rank 0's: steps are counted from there.
  virtual void say_resumed(std::uint64_t step, OnRankDeath on_death) = 0;
  /// Rank 0's: how many steps there will be.
  virtual void say_expected(std::uint64_t steps) = 0;
  /// Someone wants this rank to end.
  virtual bool stops() const = 0;
  /// Waits for the ranks that there are once who has died, or hangs, was replaced.
  virtual std::optional<Communicator> new_ranks(Duration timeout) = 0;
};

}  // namespace detail

/// What a training function sees of the training that it is one rank of. Each rank has one; all of them call the same,
/// in the same order; the thread of the function:
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
/// Where all ranks have the same state (Ddp), a death need not cost more than the step that it interrupts. What it
/// takes is that the state changes between commit() and tell() alone, but for values and buffers, and that what an
/// operation throws goes to rejoin(); ml::fit() does that:
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
  /// Copies of what is saved lie in that one's object store.
  TrainContext(detail::TrainLine& line, const detail::TrainBegin& begin, const Communicator& ranks, Runtime* runtime);
  TrainContext(TrainContext&&) = delete;
  /// What has been saved is written first.
  ~TrainContext();

  std::uint32_t rank() const { return ranks_.rank(); }
  std::uint32_t size() const { return ranks_.size(); }
  Communicator& communicator() { return ranks_; }
  /// How often it has been begun before.
  std::uint32_t attempt() const { return begin_.attempt; }
  /// This process has taken the place of a rank that has died: until resume() the others do nothing with it.
  bool is_replacement() const { return begin_.replaces; }
  /// The training's.
  std::uint64_t seed() const { return begin_.seed; }
  /// That matters.
  const std::string& metric() const { return begin_.metric; }
  bool has_folder() const { return !begin_.folder.empty(); }
  /// The best checkpoints stay.
  bool keeps_best() const { return begin_.keep_best != 0; }

  /// From now on `state` is what checkpoints have; it is loaded from the newest one, if there is one: then step() is
  /// that one's. Throws what Checkpoints::load() throws. What the state names is to live as long as this.
  void resume(State state, OnRankDeath on_death = OnRankDeath::kBeginAgain);
  /// What it names may end: there are no more checkpoints.
  void forget_state();
  /// There will be so many steps: for who watches.
  void expect(std::uint64_t steps);
  std::uint64_t expected_steps() const { return expected_; }
  /// How many have been committed.
  std::uint64_t step() const { return step_; }

  /// After each step. Metrics become the mean over the ranks, by weight. All ranks are told the same; with kStop there
  /// is a checkpoint of this step, where there is a folder. Throws UserError, on all ranks, when "loss" or the metric
  /// that matters is no number any more, with the ranks where.
  Verdict report(const Metrics& metrics, const ReportOptions& options = {});
  /// The same in two parts: when commit() has come back, the step counts, and is finished by this rank whatever happens
  /// to others; tell() may be done again for it.
  void commit(const Metrics& metrics, const ReportOptions& options = {});
  Verdict tell(const Metrics& more = {});
  /// Whether there is a step that was committed, and not told.
  bool has_to_tell() const { return has_to_tell_; }
  /// And whether tell() will save it.
  bool has_to_save() const;
  /// With OnRankDeath::kReplace, when something has thrown `why`. True: another process has taken the place of a rank
  /// that had died; state and step are those of the rank that was furthest, as they were when it committed that. False:
  /// it was not that, or nobody came.
  bool rejoin(const Exception& why);

  /// The mean over the ranks, by weight, of what is not to be reported by itself. All ranks call it.
  Metrics mean(const Metrics& metrics, double weight);
  /// Throws UserError, on all ranks, when `own` is no finite number on one of them, with the ranks where. All ranks
  /// call it.
  void check_number(const std::string& name, double own);
  /// What the last report has come to, over all ranks.
  const Metrics& last() const { return committed_.metrics; }
  /// Waits until all that was saved is on disk. Throws what has gone wrong.
  void finish_saving();

 private:
  struct Sum;
  struct Kept;
  /// What all ranks have come to in a step.
  struct Committed {
    std::uint64_t step = 0;
    std::uint64_t epoch = 0;
    bool saves = false;
    bool stops = false;
    Metrics metrics{};  ///< with those of tell()

    auto pharos_fields() { return std::tie(step, epoch, saves, stops, metrics); }
  };

  void say_where_it_begins();
  Sum sum_up(const Metrics& metrics, double weight, bool saves);
  void check_names(const Metrics& metrics, double hash, double sum, double squares);
  void check_mean(const Metrics& metrics, const Metrics& means, const std::string& name);
  [[noreturn]] void throw_is_no_number(const std::string& name, const std::string& where) const;
  bool is_replaced_after(const Exception& why);
  void check_is_shared() const;
  void keep();
  void keep_told();
  void put_back();
  void take_state_of_furthest(bool ranks_are_new);
  void copy_state();
  void share(std::vector<std::byte>& bytes, std::uint32_t from);

  detail::TrainLine& line_;
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
  std::deque<Committed> told_;  // with OnRankDeath::kReplace: who tells may die before it was heard
  bool has_to_tell_ = false;
  bool has_whole_state_ = false;
  /// With kReplace, as they were at the last commit: what may change before the next one.
  std::vector<std::vector<std::byte>> kept_values_;
  std::vector<std::vector<std::byte>> kept_slices_;
};

}  // namespace pharos::ml
