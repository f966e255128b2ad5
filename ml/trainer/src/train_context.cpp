#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/train_context.hpp>

namespace pharos::ml {
namespace {

/// A whole number whose square is one, too, in a double.
double hash_of_names(const Metrics& metrics) {
  std::uint32_t hash = 2166136261U;
  for (const auto& [name, value] : metrics.entries()) {
    for (const char each : name + '\n') hash = (hash ^ static_cast<unsigned char>(each)) * 16777619U;
  }
  return hash & 0xffffU;
}

std::string list_of(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

namespace detail {
TrainLine::~TrainLine() = default;
}  // namespace detail

/// What all ranks say in a report, together.
struct TrainContext::Sum {
  Metrics metrics;
  bool saves = false;
  bool stops = false;
};

TrainContext::TrainContext(detail::TrainLine& line, const detail::TrainBegin& begin, const Communicator& ranks)
    : line_{line}, begin_{begin}, ranks_{ranks} {
  if (begin_.folder.empty()) return;
  checkpoints_.emplace(ranks_, CheckpointOptions{.folder = std::filesystem::path{begin_.folder} / "checkpoints",
                                                 .keep_last = begin_.keep_last,
                                                 .keep_best = begin_.keep_best,
                                                 .metric = begin_.metric,
                                                 .is_better_lower = begin_.is_better_lower});
}

TrainContext::~TrainContext() = default;

std::optional<Moment> TrainContext::resume(State state) {
  state_ = std::move(state);
  has_state_ = true;
  auto moment = checkpoints_ ? checkpoints_->load(state_) : std::nullopt;
  if (moment) step_ = moment->step;
  say_where_it_begins();
  return moment;
}

void TrainContext::say_where_it_begins() {
  if (rank() == 0 && !std::exchange(has_said_, true)) line_.say_resumed(step_);
}

Verdict TrainContext::report(const Metrics& metrics, const ReportOptions& options) {
  say_where_it_begins();
  ++step_;
  const Sum sum = sum_up(metrics, options);
  last_ = sum.metrics;
  if (rank() == 0) line_.say_report(step_, options.epoch, last_);
  if (checkpoints_ && has_state_ && (sum.saves || sum.stops)) {
    checkpoints_->save(state_, {.step = step_, .epoch = options.epoch, .metrics = last_.entries()});
  }
  if (!sum.stops) return Verdict::kGoOn;
  if (checkpoints_) finish_saving();
  return Verdict::kStop;
}

void TrainContext::finish_saving() {
  if (checkpoints_) checkpoints_->finish();
}

// One reduction: what ranks want, whether they speak of the same, and what they have measured.
TrainContext::Sum TrainContext::sum_up(const Metrics& metrics, const ReportOptions& options) {
  if (!(options.weight >= 0) || !std::isfinite(options.weight)) {
    throw_error(Error{ErrorCode::kInvalidArgument, "a report of rank " + std::to_string(rank()) + " has the weight " +
                                                       std::to_string(options.weight)});
  }
  enum : std::size_t { kWeight, kSaves, kStops, kHash, kSquares, kMetrics };
  const double hash = hash_of_names(metrics);
  std::vector<double> sums(kMetrics + metrics.entries().size());
  const bool saves = options.save || (begin_.save_every != 0 && step_ % begin_.save_every == 0);
  sums[kWeight] = options.weight;
  sums[kSaves] = saves ? 1 : 0;
  sums[kStops] = line_.stops() ? 1 : 0;
  sums[kHash] = hash;
  sums[kSquares] = hash * hash;
  for (std::size_t i = 0; i < metrics.entries().size(); ++i) {
    sums[kMetrics + i] = options.weight == 0 ? 0 : options.weight * metrics.entries()[i].second;
  }
  // Ranks that report other metrics have other sums: those are looked at first.
  const std::size_t head = kMetrics;
  ranks_.all_reduce(std::span{sums}.first(head));
  check_names(metrics, hash, sums[kHash], sums[kSquares]);
  ranks_.all_reduce(std::span{sums}.subspan(head));
  Sum sum{.metrics = {}, .saves = sums[kSaves] > 0, .stops = sums[kStops] > 0};
  for (std::size_t i = 0; i < metrics.entries().size(); ++i) {
    const std::string& name = metrics.entries()[i].first;
    sum.metrics.set(name.empty() ? begin_.metric : name, sums[kWeight] > 0 ? sums[kMetrics + i] / sums[kWeight] : 0);
  }
  const double* const matters = sum.metrics.find(begin_.metric);
  if (matters != nullptr && !std::isfinite(*matters)) check_numbers(metrics);
  return sum;
}

void TrainContext::check_names(const Metrics& metrics, double hash, double sum, double squares) {
  const auto n = static_cast<double>(size());
  if (sum == n * hash && squares == n * hash * hash) return;
  std::vector<double> all(size());
  ranks_.all_gather(std::span<const double>{&hash, 1}, std::span{all});
  std::vector<std::uint32_t> others;
  for (std::uint32_t each = 0; each < size(); ++each) {
    if (all[each] != all[0]) others.push_back(each);
  }
  if (others.empty()) return;  // sums of others that came to the same
  throw_error(Error{ErrorCode::kInvalidArgument,
                    list_of(others) + " and rank 0 report different metrics at step " + std::to_string(step_) +
                        "; those of rank " + std::to_string(rank()) + " are " + metrics.to_string(),
                    "Report the same names in the same order on all ranks, with the weight 0 where there is nothing."});
}

void TrainContext::check_numbers(const Metrics& metrics) {
  const double* const named = metrics.find(begin_.metric);
  const double* const own = named != nullptr ? named : metrics.find("");
  std::vector<double> all(size());
  ranks_.all_gather(std::span<const double>{own, 1}, std::span{all});
  std::vector<std::uint32_t> where;
  for (std::uint32_t each = 0; each < size(); ++each) {
    if (!std::isfinite(all[each])) where.push_back(each);
  }
  const std::string which = where.empty() ? "the mean over all ranks" : list_of(where);
  throw_error(
      Error{ErrorCode::kUserError,
            "\"" + begin_.metric + "\" of " + which + " is no finite number any more at step " + std::to_string(step_),
            "Take a smaller learning rate, or clip gradients; Ddp with check_numbers says which parameter's "
            "gradient was the first. Checkpoints from before are there."});
}

}  // namespace pharos::ml
