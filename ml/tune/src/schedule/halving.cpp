#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/trial_scheduler.hpp>

namespace pharos::ml {
namespace {

using Decision = TrialScheduler::Decision;
using DecisionKind = Decision::Kind;

void check(std::uint64_t first, std::uint64_t most, double factor) {
  if (first >= 1 && first <= most && factor >= 2 && std::isfinite(factor)) return;
  throw_error(Error{ErrorCode::kInvalidArgument,
                    "successive halving cannot go from step " + std::to_string(first) + " to step " +
                        std::to_string(most) + " with the factor " + std::to_string(factor),
                    "The first step must be at least 1, the last step at least the first, and the factor at least 2."});
}

double worst_if_none(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

/// Returns the steps at which trials are compared.
std::vector<std::uint64_t> rungs(std::uint64_t first, std::uint64_t most, double factor) {
  std::vector<std::uint64_t> all;
  for (auto step = static_cast<double>(first); step < static_cast<double>(most); step *= factor) {
    all.push_back(static_cast<std::uint64_t>(std::llround(step)));
  }
  return all;
}

class Asha final : public TrialScheduler {
 public:
  explicit Asha(const AshaOptions& options) : options_{options} {
    check(options.first, options.most, options.factor);
    for (const std::uint64_t step : rungs(options.first, options.most, options.factor))
      rungs_.push_back({step, {}, {}});
  }

  void began(std::uint64_t trial, const Params&) override { next_rung_.emplace(trial, 0); }
  std::uint64_t decides_at(std::uint64_t trial) const override {
    const std::size_t place = next_rung_.at(trial);
    return place == rungs_.size() ? options_.most : rungs_[place].step;
  }

  Decision report(std::uint64_t trial, std::uint64_t step, double value) override {
    if (step >= options_.most) return {DecisionKind::kEnd};
    std::size_t& place = next_rung_[trial];
    if (place == rungs_.size() || step < rungs_[place].step) return {};
    Rung& rung = rungs_[place++];
    const Came came{worst_if_none(value), trial};
    rung.all.insert(came);
    if (options_.promotes) {
      rung.waiting.insert(came);
      paused_.emplace(trial, std::pair{&rung, came});
      return {DecisionKind::kPause};
    }
    const std::size_t rank = rung.all.order_of_key(came);
    return {rank < std::max<std::size_t>(best_of(rung), 1) ? DecisionKind::kGoOn : DecisionKind::kStop};
  }

  /// A trial may also end while it is paused.
  void ended(std::uint64_t trial) override {
    const auto found = paused_.extract(trial);
    if (found.empty()) return;
    const auto& [rung, came] = found.mapped();
    rung->waiting.erase(came);
  }

  // Looks at the highest rung first, because its trials have come furthest.
  std::optional<std::uint64_t> next() override {
    for (auto rung = rungs_.rbegin(); rung != rungs_.rend(); ++rung) {
      if (rung->waiting.empty()) continue;
      const Came best = *rung->waiting.begin();
      if (rung->all.order_of_key(best) >= best_of(*rung)) continue;
      ended(best.second);
      return best.second;
    }
    return std::nullopt;
  }

 private:
  using Came = std::pair<double, std::uint64_t>;  // value and trial
  /// A sorted set that finds the rank of an element in logarithmic time.
  using Ranked = __gnu_pbds::tree<Came, __gnu_pbds::null_type, std::less<>, __gnu_pbds::rb_tree_tag,
                                  __gnu_pbds::tree_order_statistics_node_update>;
  struct Rung {
    std::uint64_t step;
    Ranked all;
    std::set<Came> waiting;
  };

  std::size_t best_of(const Rung& rung) const {
    return static_cast<std::size_t>(static_cast<double>(rung.all.size()) / options_.factor);
  }

  const AshaOptions options_;
  std::vector<Rung> rungs_;
  std::map<std::uint64_t, std::size_t> next_rung_;          // by trial
  std::map<std::uint64_t, std::pair<Rung*, Came>> paused_;  // by trial: where it waits to be promoted
};

class HyperBand final : public TrialScheduler {
 public:
  explicit HyperBand(const HyperBandOptions& options) : options_{options} { check(1, options.most, options.factor); }

  void began(std::uint64_t trial, const Params&) override {
    if (brackets_.empty() || brackets_.back().trials == brackets_.back().size) open_bracket();
    Bracket& bracket = brackets_.back();
    ++bracket.trials;
    bracket_of_.emplace(trial, brackets_.size() - 1);
    bracket.running.insert(trial);
  }

  std::uint64_t decides_at(std::uint64_t trial) const override {
    const Bracket& bracket = brackets_[bracket_of_.at(trial)];
    return bracket.steps[bracket.rung];
  }

  Decision report(std::uint64_t trial, std::uint64_t step, double value) override {
    Bracket& bracket = brackets_[bracket_of_.at(trial)];
    if (step >= options_.most) return {DecisionKind::kEnd};
    if (step < bracket.steps[bracket.rung]) return {};
    bracket.running.erase(trial);
    bracket.came.insert({worst_if_none(value), trial});
    go_up(bracket);
    return {DecisionKind::kPause};
  }

  void ended(std::uint64_t trial) override {
    const auto found = bracket_of_.find(trial);
    if (found == bracket_of_.end()) return;
    Bracket& bracket = brackets_[found->second];
    bracket.running.erase(trial);
    std::erase_if(bracket.came, [trial](const auto& each) { return each.second == trial; });
    std::erase(resumed_, trial);
    go_up(bracket);
  }

  std::optional<std::uint64_t> next() override {
    if (resumed_.empty()) return std::nullopt;
    const std::uint64_t trial = resumed_.front();
    resumed_.pop_front();
    return trial;
  }

  /// No more trials begin, so the last bracket goes on with the trials that it has.
  std::optional<std::uint64_t> last_chance() override {
    if (!brackets_.empty() && resumed_.empty()) {
      brackets_.back().size = brackets_.back().trials;
      go_up(brackets_.back());
    }
    return next();
  }

 private:
  struct Bracket {
    std::size_t size;
    std::vector<std::uint64_t> steps;  // the steps of its rungs, and `most`
    std::size_t trials = 0;            // number of trials that have begun
    std::size_t rung = 0;
    std::set<std::uint64_t> running{};                  // trials on their way to the rung
    std::set<std::pair<double, std::uint64_t>> came{};  // trials that have reached the rung, by value
  };

  /// The brackets go from many trials with few steps to few trials with many steps, and then begin again.
  void open_bracket() {
    const auto most = static_cast<double>(options_.most);
    const auto last = static_cast<std::size_t>(std::log(most) / std::log(options_.factor) + 1e-9);
    const std::size_t halvings = last - brackets_.size() % (last + 1);
    const double share = static_cast<double>(last + 1) / static_cast<double>(halvings + 1);
    const double power = std::pow(options_.factor, static_cast<double>(halvings));
    Bracket bracket{.size = static_cast<std::size_t>(std::ceil(share * power - 1e-9)),
                    .steps = rungs(std::max<std::uint64_t>(static_cast<std::uint64_t>(std::llround(most / power)), 1),
                                   options_.most, options_.factor)};
    bracket.steps.push_back(options_.most);
    brackets_.push_back(std::move(bracket));
  }

  /// If all trials of the bracket have begun, and each has reached the rung or ended, resumes the best of those on the
  /// rung.
  void go_up(Bracket& bracket) {
    if (bracket.trials < bracket.size || !bracket.running.empty() || bracket.came.empty()) return;
    const auto best = static_cast<std::size_t>(static_cast<double>(bracket.came.size()) / options_.factor);
    ++bracket.rung;
    for (const auto& [value, trial] : bracket.came) {
      if (bracket.running.size() == std::max<std::size_t>(best, 1)) break;
      bracket.running.insert(trial);
      resumed_.push_back(trial);
    }
    bracket.came.clear();
  }

  const HyperBandOptions options_;
  std::vector<Bracket> brackets_;
  std::map<std::uint64_t, std::size_t> bracket_of_;
  std::deque<std::uint64_t> resumed_;
};

}  // namespace

std::unique_ptr<TrialScheduler> asha(const AshaOptions& options) {
  return std::make_unique<Asha>(options);
}
std::unique_ptr<TrialScheduler> hyperband(const HyperBandOptions& options) {
  return std::make_unique<HyperBand>(options);
}

}  // namespace pharos::ml
