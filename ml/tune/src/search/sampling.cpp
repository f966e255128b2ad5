#include "search/sampling.hpp"

#include <algorithm>
#include <cmath>

#include "search/dimension.hpp"

namespace pharos::ml {

Searcher::~Searcher() = default;

Value sample(const Domain& domain, Random& random) {
  return value_at(domain, random.uniform());
}

Value value_at(const Domain& domain, double share) {
  const Dimension dimension = dimension_of(domain);
  if (dimension.kind == Dimension::Kind::kChoice) {
    const auto count = static_cast<double>(dimension.choices);
    return value_of(domain, std::min(std::floor(share * count), count - 1));
  }
  const double place = dimension.line_low() + share * (dimension.line_high() - dimension.line_low());
  return value_of(domain, dimension.from_line(place));
}

Params complete(const Space& space,
                const std::function<Value(std::string_view name, const Domain& domain)>& value_for) {
  Params params;
  for (std::size_t i = 0; i < space.parameters().size(); ++i) {
    if (!space.is_active(i, params)) continue;
    const auto& [name, domain, condition] = space.parameters()[i];
    params.set(name, value_for(name, domain));
  }
  return params;
}

Params Unlearned::ask(std::uint64_t trial) {
  const Params proposed = propose(trial);
  return complete(space_, [&](std::string_view name, const Domain& domain) {
    const Value* const value = proposed.find(name);
    return value != nullptr ? *value : ask(trial, name, domain);
  });
}

Value Unlearned::ask(std::uint64_t trial, std::string_view name, const Domain& domain) {
  Random random{seed_, trial, name};
  return sample(domain, random);
}

std::unique_ptr<Searcher> random_search(const Space& space, std::uint64_t seed) {
  return std::make_unique<Unlearned>(space, seed);
}

}  // namespace pharos::ml
