#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "search/sampling.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kCombinationsMax = 1'000'000;

/// The grids of a space, and the combinations of their values. A combination has, for each grid, the index of its
/// value, or kNone if the grid is not active with the values of the other grids. A grid that depends on a parameter
/// that is no grid is in no combination; its value is sampled at random.
class Grids {
 public:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  explicit Grids(const Space& space) : space_{space} {
    std::vector<std::size_t> places(space.parameters().size(), kNever);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& [name, domain, condition] = space.parameters()[i];
      if (!domain.grid) continue;
      places[i] = grids_.size();
      Grid grid{.parameter = i, .values = static_cast<std::uint32_t>(domain.choices.size())};
      if (condition) {
        const auto& choices = space.parameters()[condition->parent].domain.choices;
        const auto value = std::find(choices.begin(), choices.end(), condition->value);
        grid.depends = true;
        grid.parent = value == choices.end() ? kNever : places[condition->parent];
        grid.parents_value = static_cast<std::uint32_t>(value - choices.begin());
      }
      grids_.push_back(grid);
    }
  }

  /// Calls f with each combination once. The value of the last grid changes fastest.
  template <class F>
  void for_each(const F& f) const {
    std::vector<std::uint32_t> places(grids_.size());
    std::size_t count = 0;
    go_on(places, 0, [&] {
      if (++count > kCombinationsMax) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "the grids have more than " + std::to_string(kCombinationsMax) + " combinations",
                          "Replace some grids by choices, which are sampled at random."});
      }
      f(places);
    });
  }
  Params params_of(std::span<const std::uint32_t> places) const {
    Params params;
    for (std::size_t i = 0; i < grids_.size(); ++i) {
      if (places[i] == kNone) continue;
      const auto& [name, domain, condition] = space_.parameters()[grids_[i].parameter];
      params.set(name, domain.choices[places[i]]);
    }
    return params;
  }
  std::size_t size() const { return grids_.size(); }

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  struct Grid {
    std::size_t parameter = 0;
    std::uint32_t values = 0;
    bool depends = false;
    std::size_t parent = kNever;      // index of the grid that it depends on; kNever: in no combination
    std::uint32_t parents_value = 0;  // the parent's value with which it is active
  };

  template <class F>
  void go_on(std::vector<std::uint32_t>& places, std::size_t grid, const F& f) const {
    if (grid == grids_.size()) return f();
    const Grid& own = grids_[grid];
    if (own.depends && (own.parent == kNever || places[own.parent] != own.parents_value)) {
      places[grid] = kNone;
      return go_on(places, grid + 1, f);
    }
    for (std::uint32_t value = 0; value < own.values; ++value) {
      places[grid] = value;
      go_on(places, grid + 1, f);
    }
  }

  const Space& space_;
  std::vector<Grid> grids_;
};

class GridSearch final : public Unlearned {
 public:
  GridSearch(const Space& space, std::uint64_t seed) : Unlearned{space, seed}, grids_{this->space()} {
    grids_.for_each([this](const std::vector<std::uint32_t>& places) {
      places_.insert(places_.end(), places.begin(), places.end());
      ++combinations_;
    });
  }

 protected:
  Params propose(std::uint64_t trial) override {
    const std::span all{places_};
    return grids_.params_of(all.subspan(trial % combinations_ * grids_.size(), grids_.size()));
  }

 private:
  const Grids grids_;
  std::vector<std::uint32_t> places_;  // the indices of all combinations, one combination after the other
  std::size_t combinations_ = 0;
};

}  // namespace

std::unique_ptr<Searcher> grid_search(const Space& space, std::uint64_t seed) {
  return std::make_unique<GridSearch>(space, seed);
}

std::uint64_t grid_size(const Space& space) {
  std::uint64_t count = 0;
  Grids{space}.for_each([&](const auto&) { ++count; });
  return count;
}

}  // namespace pharos::ml
