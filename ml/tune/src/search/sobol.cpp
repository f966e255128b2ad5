#include <cstddef>
#include <cstdint>
#include <string>

#include <boost/random/sobol.hpp>

#include <pharos/actors/exceptions.hpp>

#include "search/sampling.hpp"

namespace pharos::ml {
namespace {

// The points of each dimension are combined (XOR) with bits that follow from the seed. Thus another seed gives other
// points that fill the space as evenly.
class SobolSearch final : public Unlearned {
 public:
  using Unlearned::Unlearned;

 protected:
  Params propose(std::uint64_t trial) override {
    const auto& parameters = space().parameters();
    if (parameters.empty()) return {};
    boost::random::sobol points{parameters.size()};
    points.discard(trial * parameters.size());
    Params params;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, domain, condition] = parameters[i];
      Random random{seed(), 0, name};
      const std::uint64_t bits = points() ^ random.next();
      if (!space().is_active(i, params)) continue;
      params.set(name, value_at(domain, (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52));
    }
    return params;
  }
};

}  // namespace

std::unique_ptr<Searcher> sobol_search(const Space& space, std::uint64_t seed) {
  constexpr std::size_t kParametersMax = 3667;  // Boost has direction numbers for so many dimensions
  if (space.parameters().size() > kParametersMax) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the space has " + std::to_string(space.parameters().size()) +
                                                       " parameters, but a Sobol sequence has at most " +
                                                       std::to_string(kParametersMax) + " dimensions"});
  }
  return std::make_unique<SobolSearch>(space, seed);
}

}  // namespace pharos::ml
