#include "victims.hpp"

#include <algorithm>
#include <tuple>

namespace pharos::node {

std::optional<std::size_t> choose_victim(std::span<const Candidate> candidates) {
  const auto worth_of = [](const Candidate& each) { return std::tuple{each.idle, each.may_run_again, each.since}; };
  const auto cheapest = std::max_element(candidates.begin(), candidates.end(),
                                         [&](const auto& a, const auto& b) { return worth_of(a) < worth_of(b); });
  if (cheapest == candidates.end()) return std::nullopt;
  return static_cast<std::size_t>(cheapest - candidates.begin());
}

}  // namespace pharos::node
