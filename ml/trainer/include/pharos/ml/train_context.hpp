#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <pharos/base/export.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/state.hpp>

namespace pharos::ml {

struct ReportOptions {
  /// So much this rank's metrics count: how many samples, or tokens, they are the mean of.
  double weight = 1;
  std::uint64_t epoch = 0;
  /// A checkpoint of this step, whatever TrainerOptions::save_every says. If one rank wants it, all save.
  bool save = false;
};

namespace detail {

/// What the trainer tells each rank.
struct TrainBegin {
  std::uint32_t attempt = 0;
  std::uint64_t seed = 0;
  std::string folder{};  ///< for checkpoints; empty: none
  std::uint64_t keep_last = 2;
  std::uint64_t keep_best = 0;
  std::string metric{};
  bool is_better_lower = true;
  std::uint64_t save_every = 0;  ///< steps; 0: when it is told to stop
};

/// The other end of a rank's training. Any thread.
class PHAROS_API TrainLine {
 public:
  TrainLine() = default;
  TrainLine(TrainLine&&) = delete;
  virtual ~TrainLine();

  /// Rank 0's: what all ranks together have reported.
  virtual void say_report(std::uint64_t step, std::uint64_t epoch, const Metrics& metrics) = 0;
  /// Rank 0's: steps are counted from there.
  virtual void say_resumed(std::uint64_t step) = 0;
  /// Someone wants this rank to end.
  virtual bool stops() const = 0;
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
class PHAROS_API TrainContext {
 public:
  TrainContext(detail::TrainLine& line, const detail::TrainBegin& begin, const Communicator& ranks);
  TrainContext(TrainContext&&) = delete;
  /// What has been saved is written first.
  ~TrainContext();

  std::uint32_t rank() const { return ranks_.rank(); }
  std::uint32_t size() const { return ranks_.size(); }
  Communicator& communicator() { return ranks_; }
  /// How often it has been begun before.
  std::uint32_t attempt() const { return begin_.attempt; }
  /// The training's.
  std::uint64_t seed() const { return begin_.seed; }

  /// From now on `state` is what checkpoints have; it is loaded from the newest one, if there is one: then step() is
  /// that one's. Throws what Checkpoints::load() throws. What the state names is to live as long as this.
  std::optional<Moment> resume(State state);
  /// How many have been reported.
  std::uint64_t step() const { return step_; }

  /// After each step. Metrics become the mean over the ranks, by weight. All ranks are told the same; with kStop there
  /// is a checkpoint of this step, where there is a folder. Throws UserError, on all ranks, when the metric that
  /// matters is no number any more, with the ranks where.
  Verdict report(const Metrics& metrics, const ReportOptions& options = {});
  /// What the last report has come to, over all ranks.
  const Metrics& last() const { return last_; }
  /// Waits until all that was saved is on disk. Throws what has gone wrong.
  void finish_saving();

 private:
  struct Sum;

  void say_where_it_begins();
  Sum sum_up(const Metrics& metrics, const ReportOptions& options);
  void check_names(const Metrics& metrics, double hash, double sum, double squares);
  void check_numbers(const Metrics& metrics);

  detail::TrainLine& line_;
  const detail::TrainBegin begin_;
  Communicator ranks_;
  std::optional<Checkpoints> checkpoints_;
  State state_;
  bool has_state_ = false;
  bool has_said_ = false;
  std::uint64_t step_ = 0;
  Metrics last_;
};

}  // namespace pharos::ml
