#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/train_context.hpp>
#include <pharos/ml/trainer/failpoints.hpp>
#include <pharos/wire/stored_codec.hpp>

#include "deaths.hpp"

namespace pharos::ml {
namespace {

constexpr const char* kLoss = "loss";
constexpr Duration kKnownTime = std::chrono::seconds{5};

/// A hash of the names, small enough that its square, and sums of squares, are exact in a double.
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

[[noreturn]] void throw_is_no_number(const std::string& name, const std::string& where, std::uint64_t step) {
  throw_error(Error{
      ErrorCode::kUserError, "\"" + name + "\" of " + where + " is no longer finite at step " + std::to_string(step),
      "Use a smaller learning rate, or clip gradients. check_numbers, in FitOptions and DdpOptions, reports the "
      "first parameter whose gradient is not finite. Earlier checkpoints are still there."});
}

}  // namespace

namespace detail {
TrainerLink::~TrainerLink() = default;
}  // namespace detail

/// The combined report of all ranks.
struct TrainContext::Sum {
  Metrics metrics;
  bool saves = false;
  bool stops = false;
};

TrainContext::TrainContext(detail::TrainerLink& trainer, const detail::TrainBegin& begin, const Communicator& ranks,
                           Runtime* runtime)
    : trainer_{trainer}, begin_{begin}, ranks_{ranks} {
  if (begin_.folder.empty()) return;
  checkpoints_.emplace(ranks_, CheckpointOptions{.folder = std::filesystem::path{begin_.folder} / "checkpoints",
                                                 .keep_last = begin_.keep_last,
                                                 .keep_best = begin_.keep_best,
                                                 .metric = begin_.metric,
                                                 .is_better_lower = begin_.is_better_lower,
                                                 .runtime = runtime,
                                                 .takes_over = true});
}

TrainContext::~TrainContext() = default;

void TrainContext::resume(State state, OnRankDeath on_death, const std::filesystem::path& begin_from) {
  state_ = std::move(state);
  has_state_ = true;
  on_death_ = on_death;
  if (on_death == OnRankDeath::kReplace) check_is_shared();
  if (is_replacement()) {
    take_state_of_furthest(false);
  } else {
    auto moment = checkpoints_ ? checkpoints_->load(state_) : std::nullopt;
    if (!moment && !begin_from.empty()) {
      if (!checkpoints_) {
        throw_error(Error{ErrorCode::kInvalidArgument, "a training without a folder cannot begin from a checkpoint",
                          "Set TrainerOptions::folder."});
      }
      moment = checkpoints_->load_from(begin_from, state_);
    }
    if (moment) step_ = moment->step;
    has_whole_state_ = true;
    keep();
  }
  say_where_it_begins();
}

void TrainContext::check_is_shared() const {
  for (const StateSlice& each : state_.slices()) {
    if (each.is_shared || size() == 1) continue;
    throw_error(Error{
        ErrorCode::kInvalidArgument,
        "ranks have divided \"" + each.name + "\" among them, so a rank that dies has a part that no other rank has",
        "Use OnRankDeath::kBeginAgain."});
  }
}

void TrainContext::forget_state() {
  state_ = {};
  has_state_ = false;
}

void TrainContext::expect(std::uint64_t steps) {
  expected_ = steps;
  if (rank() == 0) trainer_.say_expected(steps);
}

void TrainContext::say_where_it_begins() {
  if (rank() != 0 || is_replacement() || std::exchange(has_said_, true)) return;
  trainer_.say_resumed(step_, on_death_);
  trainer_.wait_until_heard();  // the trainer then knows how to handle a death, also the death of this rank
}

Verdict TrainContext::report(const Metrics& metrics, const ReportOptions& options) {
  commit(metrics, options);
  return tell();
}

void TrainContext::commit(const Metrics& metrics, const ReportOptions& options) {
  say_where_it_begins();
  const bool is_due = begin_.save_every != 0 && (step_ + 1) % begin_.save_every == 0;
  Sum sum = sum_up(metrics, options.weight, options.save || is_due, options.stop || trainer_.stops());
  check_mean(metrics, sum.metrics, begin_.metric);
  if (begin_.metric != kLoss) check_mean(metrics, sum.metrics, kLoss);
  // Neither the rest of commit() nor the optimizer's step after it waits for other ranks, so that a rank which has
  // counted a step can finish it.
  ++step_;
  committed_ = {step_, options.epoch, sum.saves, sum.stops, std::move(sum.metrics)};
  has_to_tell_ = true;
  keep();
  failpoint(failpoints::kStepCommitted);
}

Verdict TrainContext::tell(const Metrics& more) {
  for (const auto& [name, value] : more.entries()) committed_.metrics.set(name, value);
  if (rank() == 0) trainer_.say_report(step_, committed_.epoch, committed_.metrics);
  keep_told();
  if (has_to_save()) {
    // The trainer must hear of all steps before a checkpoint, because they are not done again.
    if (rank() == 0) trainer_.wait_until_heard();
    checkpoints_->save(state_, {.step = step_, .epoch = committed_.epoch, .metrics = committed_.metrics.entries()});
  }
  if (committed_.stops && checkpoints_) finish_saving();
  has_to_tell_ = false;
  failpoint(failpoints::kStepTold);
  return committed_.stops ? Verdict::kStop : Verdict::kGoOn;
}

bool TrainContext::has_to_save() const {
  return has_to_tell_ && checkpoints_ && has_state_ && (committed_.saves || committed_.stops);
}

void TrainContext::finish_saving() {
  if (checkpoints_) checkpoints_->finish();
}

Metrics TrainContext::mean(const Metrics& metrics, double weight) {
  return sum_up(metrics, weight, false, false).metrics;
}

// Reduces what the ranks want (to save, to stop), hashes of the names of their metrics, and the metrics.
TrainContext::Sum TrainContext::sum_up(const Metrics& metrics, double weight, bool saves, bool stops) {
  if (!(weight >= 0) || !std::isfinite(weight)) {
    throw_error(Error{ErrorCode::kInvalidArgument, "a report of rank " + std::to_string(rank()) + " has the weight " +
                                                       std::to_string(weight) + ", which is negative or not finite"});
  }
  enum : std::size_t { kWeight, kSaves, kStops, kHash, kSquares, kMetrics };
  const double hash = hash_of_names(metrics);
  std::vector<double> sums(kMetrics + metrics.entries().size());
  sums[kWeight] = weight;
  sums[kSaves] = saves ? 1 : 0;
  sums[kStops] = stops ? 1 : 0;
  sums[kHash] = hash;
  sums[kSquares] = hash * hash;
  for (std::size_t i = 0; i < metrics.entries().size(); ++i) {
    sums[kMetrics + i] = weight == 0 ? 0 : weight * metrics.entries()[i].second;
  }
  // The names are checked first, because ranks with different metrics would reduce lists of different lengths.
  const std::size_t head = kMetrics;
  ranks_.all_reduce(std::span{sums}.first(head));
  check_names(metrics, hash, sums[kHash], sums[kSquares]);
  ranks_.all_reduce(std::span{sums}.subspan(head));
  Sum sum{.metrics = {}, .saves = sums[kSaves] > 0, .stops = sums[kStops] > 0};
  for (std::size_t i = 0; i < metrics.entries().size(); ++i) {
    const std::string& name = metrics.entries()[i].first;
    sum.metrics.set(name.empty() ? begin_.metric : name, sums[kWeight] > 0 ? sums[kMetrics + i] / sums[kWeight] : 0);
  }
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
  if (others.empty()) return;  // the sums did not match, although all hashes are equal
  throw_error(Error{ErrorCode::kInvalidArgument,
                    list_of(others) + " and rank 0 report different metrics at step " + std::to_string(step_ + 1) +
                        "; those of rank " + std::to_string(rank()) + " are " + metrics.to_string(),
                    "Report the same names in the same order on all ranks; a rank that has no values reports them with "
                    "the weight 0."});
}

void TrainContext::check_number(const std::string& name, double own) {
  std::vector<double> all(size());
  ranks_.all_gather(std::span<const double>{&own, 1}, std::span{all});
  std::vector<std::uint32_t> where;
  for (std::uint32_t each = 0; each < size(); ++each) {
    if (!std::isfinite(all[each])) where.push_back(each);
  }
  if (!where.empty()) throw_is_no_number(name, list_of(where), step_ + 1);
}

void TrainContext::check_mean(const Metrics& metrics, const Metrics& means, const std::string& name) {
  const double* const mean = means.find(name);
  if (mean == nullptr || std::isfinite(*mean)) return;
  const double* const named = metrics.find(name);
  check_number(name, named != nullptr ? *named : *metrics.find(""));
  throw_is_no_number(name, "the mean over all ranks", step_ + 1);
}

// ---- Another rank's death

/// The part of the state that the ranks take from the rank that is furthest; tensors are sent separately.
struct TrainContext::Kept {
  std::uint64_t step = 0;
  Committed committed{};
  std::vector<Committed> told{};
  std::vector<std::vector<std::byte>> values{};

  auto pharos_fields() { return std::tie(step, committed, told, values); }
};

// Parameters and the state of optimizers change only between commit() and tell(), and then on every rank that has
// committed. So the rank that is furthest has the right ones. Values and buffers may have changed since its commit, and
// are put back.
bool TrainContext::rejoin(const Exception& why) {
  if (!is_replaced_after(why)) return false;
  take_state_of_furthest(true);
  return true;
}

bool TrainContext::is_replaced_after(const Exception& why) {
  const ErrorCode code = why.error().code();
  const bool is_lost = code == ErrorCode::kObjectLost;  // the state is lost, because all ranks that had it have died
  if (on_death_ != OnRankDeath::kReplace || size() == 1 || !is_of_death(code) || is_lost) return false;
  // Waits as long as the trainer may take to learn of the death, and to have another process in place.
  auto ranks = trainer_.new_ranks(2 * begin_.timeout + kKnownTime);
  if (!ranks) return false;
  ranks_ = *std::move(ranks);
  return true;
}

void TrainContext::keep() {
  if (on_death_ != OnRankDeath::kReplace || size() == 1) return;
  state_.call_before_commit();
  kept_values_.resize(state_.values().size());
  for (std::size_t i = 0; i < kept_values_.size(); ++i) kept_values_[i] = state_.values()[i].save();
  std::size_t at = 0;
  for (const StateSlice& each : state_.slices()) {
    if (!each.changes_early) continue;
    if (kept_slices_.size() == at) kept_slices_.emplace_back(each.bytes.size());
    std::ranges::copy(each.bytes, kept_slices_[at++].begin());
  }
}

void TrainContext::keep_told() {
  if (on_death_ != OnRankDeath::kReplace || size() == 1) return;
  if (!told_.empty() && told_.back().step == step_) told_.pop_back();
  told_.push_back(committed_);
  if (told_.size() > detail::TrainerLink::kUnheardMax) told_.pop_front();
}

void TrainContext::put_back() {
  for (std::size_t i = 0; i < kept_values_.size(); ++i) state_.values()[i].load(kept_values_[i]);
  state_.call_before_save();
  std::size_t at = 0;
  for (const StateSlice& each : state_.slices()) {
    if (each.changes_early) std::ranges::copy(kept_slices_[at++], each.bytes.begin());
  }
}

void TrainContext::take_state_of_furthest(bool ranks_are_new) {
  for (;; ranks_are_new = true) {
    try {
      if (ranks_are_new && checkpoints_) checkpoints_->go_on_with(ranks_);
      return copy_state();
    } catch (const Exception& why) {
      if (!is_replaced_after(why)) throw;
    }
  }
}

void TrainContext::copy_state() {
  const std::int64_t own = has_whole_state_ ? static_cast<std::int64_t>(step_) : -1;
  std::vector<std::int64_t> all(size());
  ranks_.all_gather(std::span<const std::int64_t>{&own, 1}, std::span{all});
  const auto furthest = std::ranges::max_element(all);
  if (*furthest < 0) {
    throw_error(Error{ErrorCode::kObjectLost, "all ranks that had the complete state of the training have died"});
  }
  const auto from = static_cast<std::uint32_t>(furthest - all.begin());
  if (has_whole_state_) put_back();
  has_whole_state_ = own == *furthest;

  Kept kept{step_, committed_, {told_.begin(), told_.end()}, {}};
  for (std::size_t i = 0; i < kept_values_.size(); ++i) {
    if (!state_.values()[i].is_of_rank) kept.values.push_back(kept_values_[i]);
  }
  auto bytes = to_bytes(kept);
  if (!bytes) throw_error(std::move(bytes).error());
  share(*bytes, from);
  auto taken = from_bytes<Kept>(*bytes);
  if (!taken) throw_error(std::move(taken).error());
  if (rank() == from) failpoint(failpoints::kStateGiven);
  for (const StateSlice& each : state_.slices()) ranks_.begin_broadcast(each.dtype, each.bytes, from).wait();
  std::size_t at = 0;
  for (const State::Value& each : state_.values()) {
    if (!each.is_of_rank) each.load(taken->values.at(at++));
  }
  state_.call_after_load();
  failpoint(failpoints::kStateTaken);
  step_ = taken->step;
  committed_ = taken->committed;
  // The step is told again even if some ranks have told it, because others may have died before they did.
  has_to_tell_ = step_ > 0 && committed_.step == step_;
  has_whole_state_ = true;
  told_.assign(taken->told.begin(), taken->told.end());
  if (rank() == 0 && is_replacement()) {  // the trainer may not have heard the last reports of the rank 0 that has died
    for (const Committed& each : told_) trainer_.say_report(each.step, each.epoch, each.metrics);
  }
  keep();
}

/// Sends the bytes of rank `from` to all ranks.
void TrainContext::share(std::vector<std::byte>& bytes, std::uint32_t from) {
  auto size = static_cast<std::int64_t>(bytes.size());
  ranks_.broadcast(std::span{&size, 1}, from);
  bytes.resize(static_cast<std::size_t>(size));
  ranks_.begin_broadcast(DType::kU8, bytes, from).wait();
}

}  // namespace pharos::ml
