#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "search/cma.hpp"
#include "search/dimension.hpp"
#include "search/sampling.hpp"

namespace pharos::ml {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr std::size_t kTriesPerDimension = 10;  // points to sample, for each dimension, until one is inside the cube

/// A parameter as a coordinate of the unit cube. With steps of equal size, the first step lies at 0 and the last at 1.
/// The steps of a logarithmic parameter differ in size, so its coordinate has none; its range is half a step longer at
/// both ends, and values are rounded to steps.
struct Coordinate {
  explicit Coordinate(const Space::Parameter& its)
      : name{its.name}, domain{its.domain}, dimension{dimension_of(domain)} {
    const bool has_steps = dimension.kind == Dimension::Kind::kSteps && !dimension.log;
    low = has_steps ? dimension.low : dimension.line_low();
    high = has_steps ? dimension.high : dimension.line_high();
    step = has_steps ? dimension.step / (high - low) : 0;
  }
  double share_of(const Value& value) const {
    return (dimension.to_line(number_of(domain, value)) - low) / (high - low);
  }
  Value value_of_share(double share) const { return value_of(domain, dimension.from_line(low + share * (high - low))); }

  std::string name;
  Domain domain;
  Dimension dimension;
  double low;
  double high;
  double step;  // as a share of the range; 0 if there are none
};

class CmaEs final : public Searcher {
 public:
  CmaEs(const Space& space, const CmaEsOptions& options) : space_{space}, options_{options} {
    for (const Space::Parameter& each : space_.parameters()) {
      const bool is_number = each.domain.kind != Domain::Kind::kChoice;
      if (is_number && !each.condition && !each.domain.is_fixed()) coordinates_.emplace_back(each);
    }
    if (!coordinates_.empty()) begin_run();
  }

  Params ask(std::uint64_t trial) override {
    const Params proposed = coordinates_.empty() ? Params{} : params_of(point_for(trial));
    return complete(space_, [&](std::string_view name, const Domain& domain) {
      const Value* const value = proposed.find(name);
      return value != nullptr ? *value : ask(trial, name, domain);
    });
  }
  Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) override {
    Random random{options_.seed, trial, name};
    return sample(domain, random);
  }

  void began(std::uint64_t trial, const Params& params) override {
    if (coordinates_.empty()) return;
    if (auto point = point_of(trial, params)) asked_.insert_or_assign(trial, Asked{run_, cma_->generation(), *point});
  }

  void tell(std::uint64_t trial, const Outcome& outcome) override {
    const auto found = asked_.find(trial);
    if (found == asked_.end()) return;
    const Asked its = std::move(found->second);
    asked_.erase(found);
    const bool counts = outcome.state == Outcome::State::kComplete && !std::isnan(outcome.value);
    if (!counts || its.run != run_ || its.generation != cma_->generation()) return;
    solutions_.emplace(trial, Cma::Solution{its.point, outcome.value});
    if (solutions_.size() < cma_->population()) return;
    std::vector<Cma::Solution> all;
    for (auto& [number, solution] : solutions_) all.push_back(std::move(solution));
    solutions_.clear();
    cma_->tell(std::move(all));
    if (options_.restarts && cma_->is_done()) {
      ++run_;
      begin_run();
    }
  }

 private:
  struct Asked {
    std::uint64_t run;
    std::uint64_t generation;
    VectorXd point;
  };

  /// The first run begins in the middle; each further run begins at a random point, with twice the population.
  void begin_run() {
    Cma::Options options{.sigma = options_.sigma, .population = options_.population};
    for (const Coordinate& each : coordinates_) options.steps.push_back(each.step);
    if (run_ != 0) {
      Random random{options_.seed, run_, "run"};
      for (std::size_t i = 0; i < coordinates_.size(); ++i) options.mean.push_back(random.uniform());
      options.population = 2 * cma_->population();
    }
    cma_.emplace(coordinates_.size(), options);
  }

  VectorXd point_for(std::uint64_t trial) {
    Random random{options_.seed, trial, "point"};
    VectorXd normals(static_cast<Index>(coordinates_.size()));
    VectorXd point;
    for (std::size_t i = 0; i <= kTriesPerDimension * coordinates_.size(); ++i) {
      for (double& each : normals) each = random.normal();
      point = cma_->point_of(normals);
      if (cma_->is_inside(point)) return point;
    }
    return cma_->moved_inside(point);
  }

  Params params_of(const VectorXd& point) const {
    const VectorXd tried = cma_->tried(point);
    Params params;
    for (std::size_t i = 0; i < coordinates_.size(); ++i) {
      params.set(coordinates_[i].name, coordinates_[i].value_of_share(tried[static_cast<Index>(i)]));
    }
    return params;
  }

  /// Returns the point of a trial's parameters. If this searcher has proposed them, this is the point before it was
  /// rounded to steps. Returns nullopt if a parameter is missing.
  std::optional<VectorXd> point_of(std::uint64_t trial, const Params& params) {
    VectorXd point = point_for(trial);
    const Params proposed = params_of(point);
    bool is_proposed = true;
    for (std::size_t i = 0; i < coordinates_.size(); ++i) {
      const Value* const value = params.find(coordinates_[i].name);
      if (value == nullptr) return std::nullopt;
      is_proposed = is_proposed && *value == proposed.entries()[i].second;
    }
    if (is_proposed) return point;
    for (std::size_t i = 0; i < coordinates_.size(); ++i) {
      point[static_cast<Index>(i)] = coordinates_[i].share_of(*params.find(coordinates_[i].name));
    }
    return point;
  }

  const Space space_;
  const CmaEsOptions options_;
  std::vector<Coordinate> coordinates_;
  std::optional<Cma> cma_;
  std::uint64_t run_ = 0;
  std::map<std::uint64_t, Asked> asked_;              // running trials
  std::map<std::uint64_t, Cma::Solution> solutions_;  // ended trials of this generation
};

}  // namespace

std::unique_ptr<Searcher> cma_es(const Space& space, const CmaEsOptions& options) {
  if (options.population == 1) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "CmaEsOptions::population is 1, but nothing is learned from a generation of one trial",
                      "Set CmaEsOptions::population to 2 or more, or to 0 for a size that suits the space."});
  }
  if (!(options.sigma > 0) || !std::isfinite(options.sigma)) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "CmaEsOptions::sigma is " + std::to_string(options.sigma) +
                          ", but a standard deviation is a finite number above 0",
                      "Give a share of the ranges, such as 0.2."});
  }
  return std::make_unique<CmaEs>(space, options);
}

}  // namespace pharos::ml
