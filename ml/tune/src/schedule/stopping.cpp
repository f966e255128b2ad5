#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <vector>

#include <pharos/ml/trial_scheduler.hpp>

namespace pharos::ml {

TrialScheduler::~TrialScheduler() = default;

std::uint64_t TrialScheduler::decides_at(std::uint64_t) const {
  return 0;
}

namespace {

using Decision = TrialScheduler::Decision;
using DecisionKind = Decision::Kind;

/// The base of schedulers under which trials go on or are stopped, and never pause.
class Stopping : public TrialScheduler {
 public:
  void began(std::uint64_t, const Params&) override {}
  Decision report(std::uint64_t trial, std::uint64_t step, double value) final {
    const double worst = std::numeric_limits<double>::infinity();
    return {stops(trial, step, std::isnan(value) ? worst : value) ? DecisionKind::kStop : DecisionKind::kGoOn};
  }
  void ended(std::uint64_t) override {}
  std::optional<std::uint64_t> next() final { return std::nullopt; }

 protected:
  virtual bool stops(std::uint64_t trial, std::uint64_t step, double value) = 0;
};

class RunAll final : public Stopping {
  std::uint64_t decides_at(std::uint64_t) const override { return std::numeric_limits<std::uint64_t>::max(); }
  bool stops(std::uint64_t, std::uint64_t, double) override { return false; }
};

// Trials that have ended are kept, because running trials are still compared with them.
class Median final : public Stopping {
 public:
  explicit Median(const MedianOptions& options) : options_{options} {}

 private:
  struct Trial {
    double best = std::numeric_limits<double>::infinity();
    double sum = 0;
    std::vector<std::pair<std::uint64_t, double>> means{};  // a step, and the mean of the reports up to it
  };

  bool stops(std::uint64_t trial, std::uint64_t step, double value) override {
    Trial& own = trials_[trial];
    own.best = std::min(own.best, value);
    own.sum += value;
    own.means.emplace_back(step, own.sum / static_cast<double>(own.means.size() + 1));
    if (step <= options_.grace) return false;
    std::vector<double> others;
    for (const auto& [number, its] : trials_) {
      if (number == trial || its.means.back().first < step) continue;
      const auto there = std::upper_bound(its.means.begin(), its.means.end(), step,
                                          [](std::uint64_t at, const auto& mean) { return at < mean.first; });
      if (there != its.means.begin()) others.push_back(std::prev(there)->second);
    }
    if (others.size() < std::max<std::size_t>(options_.trials, 1)) return false;
    std::sort(others.begin(), others.end());
    return own.best > (others[(others.size() - 1) / 2] + others[others.size() / 2]) / 2;
  }

  const MedianOptions options_;
  std::map<std::uint64_t, Trial> trials_;
};

class Patience final : public Stopping {
 public:
  explicit Patience(const PatienceOptions& options) : options_{options} {}
  void ended(std::uint64_t trial) override { trials_.erase(trial); }

 private:
  struct Trial {
    double best = std::numeric_limits<double>::infinity();
    std::uint64_t since = 0;  // number of reports since the best one
  };

  bool stops(std::uint64_t trial, std::uint64_t, double value) override {
    Trial& own = trials_[trial];
    const bool is_first = std::isinf(own.best);
    if (is_first ? !std::isinf(value) : value < own.best - options_.least) {
      own = {value, 0};
      return false;
    }
    return ++own.since >= options_.reports;
  }

  const PatienceOptions options_;
  std::map<std::uint64_t, Trial> trials_;
};

class Plateau final : public Stopping {
 public:
  explicit Plateau(const PlateauOptions& options) : options_{options} {}
  void ended(std::uint64_t trial) override { last_.erase(trial); }

 private:
  bool stops(std::uint64_t trial, std::uint64_t step, double value) override {
    std::deque<double>& last = last_[trial];
    last.push_back(value);
    if (last.size() > options_.reports) last.pop_front();
    if (last.size() < options_.reports || step < options_.grace) return false;
    double mean = 0;
    double square = 0;
    for (const double each : last) mean += each / static_cast<double>(last.size());
    for (const double each : last) square += (each - mean) * (each - mean) / static_cast<double>(last.size());
    return std::sqrt(square) <= options_.deviation;
  }

  const PlateauOptions options_;
  std::map<std::uint64_t, std::deque<double>> last_;
};

}  // namespace

std::unique_ptr<TrialScheduler> run_all() {
  return std::make_unique<RunAll>();
}
std::unique_ptr<TrialScheduler> median_stop(const MedianOptions& options) {
  return std::make_unique<Median>(options);
}
std::unique_ptr<TrialScheduler> patience(const PatienceOptions& options) {
  return std::make_unique<Patience>(options);
}
std::unique_ptr<TrialScheduler> plateau(const PlateauOptions& options) {
  return std::make_unique<Plateau>(options);
}

}  // namespace pharos::ml
