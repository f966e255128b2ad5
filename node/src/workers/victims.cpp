#include "workers/victims.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace pharos::node {
namespace {

constexpr std::uint64_t kNegligible = 32;  // less than 1/32 of the largest worker's memory is not worth a kill

}  // namespace

std::optional<std::size_t> choose_victim(std::span<const Candidate> candidates) {
  std::uint64_t most = 0;
  for (const Candidate& each : candidates) most = std::max(most, each.memory.bytes());
  const auto worth_of = [most](const Candidate& each) {
    return std::tuple{each.memory.bytes() >= most / kNegligible, each.idle, each.may_run_again, each.since};
  };
  const auto cheapest = std::max_element(candidates.begin(), candidates.end(),
                                         [&](const auto& a, const auto& b) { return worth_of(a) < worth_of(b); });
  if (cheapest == candidates.end()) return std::nullopt;
  return static_cast<std::size_t>(cheapest - candidates.begin());
}

}  // namespace pharos::node
