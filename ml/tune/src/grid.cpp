#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "drawing.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kCombinationsMax = 1'000'000;

/// Of the grids; the first one's values change last. One that another's value rules out is not in it.
std::vector<Params> combinations_of(const Space& space) {
  std::vector<Params> all(1);
  for (std::size_t i = 0; i < space.parameters().size(); ++i) {
    const auto& [name, domain, condition] = space.parameters()[i];
    if (!domain.grid) continue;
    std::vector<Params> longer;
    for (const Params& each : all) {
      if (!space.is_active(i, each)) {
        longer.push_back(each);
        continue;
      }
      for (const Value& value : domain.choices) {
        longer.push_back(each);
        longer.back().set(name, value);
      }
      if (longer.size() > kCombinationsMax) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "the grids have more than " + std::to_string(kCombinationsMax) + " combinations",
                          "Give choices, of which a search draws, in place of some grids."});
      }
    }
    all = std::move(longer);
  }
  return all;
}

class GridSearch final : public Unlearned {
 public:
  GridSearch(const Space& space, std::uint64_t seed) : Unlearned{space, seed}, combinations_{combinations_of(space)} {}

 protected:
  Params propose(std::uint64_t trial) override { return combinations_[trial % combinations_.size()]; }

 private:
  const std::vector<Params> combinations_;
};

}  // namespace

std::unique_ptr<Searcher> grid_search(const Space& space, std::uint64_t seed) {
  return std::make_unique<GridSearch>(space, seed);
}

std::uint64_t grid_size(const Space& space) {
  return combinations_of(space).size();
}

}  // namespace pharos::ml
