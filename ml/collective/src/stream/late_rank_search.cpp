#include "stream/late_rank_search.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace pharos::ml {
namespace {

// A rank that does not answer in this time is stopped, cut off or too busy.
constexpr Duration kAskTime = std::chrono::milliseconds{250};
constexpr int kAskTimes = 2;

}  // namespace

LateRankSearch::LateRankSearch(std::uint32_t rank, std::uint32_t ranks, WhoIsMissing missing, Ask ask)
    : rank_{rank}, ranks_{ranks}, missing_{std::move(missing)}, ask_{std::move(ask)} {}

std::optional<Error> LateRankSearch::go_on(const std::optional<std::string>& overdue, TimePoint now) {
  if (!overdue) {
    round_.reset();
    return std::nullopt;
  }
  if (!round_) {
    what_ = *overdue;
    round_ = Round{};
    ask_again(now);
    return std::nullopt;
  }
  if (now < round_->until) return std::nullopt;
  if (round_->times < kAskTimes) {
    ask_again(now);
    return std::nullopt;
  }
  const std::vector<std::uint32_t>& asked = round_->asked;
  const std::string late = asked.empty() ? "its data to be sent" : "rank " + std::to_string(asked.back());
  return Error{
      ErrorCode::kDeadlineExceeded, what_ + " waits for " + late,
      "Check the process of that rank and the network between the ranks, or raise CommunicatorOptions::timeout."};
}

void LateRankSearch::ask_again(TimePoint now) {
  ++round_->times;
  round_->asked.clear();
  round_->until = now + kAskTime;
  if (const auto missing = missing_()) suspect(*missing);
}

/// Adds a rank to the chain and asks it. Stops at a rank that is in the chain already: where ranks wait for each other
/// in a circle, any of them may be named.
void LateRankSearch::suspect(std::uint32_t rank) {
  std::vector<std::uint32_t>& asked = round_->asked;
  if (rank == rank_ || rank >= ranks_ || std::find(asked.begin(), asked.end(), rank) != asked.end()) return;
  asked.push_back(rank);
  ask_(rank);
}

void LateRankSearch::answered(std::uint32_t by, std::optional<std::uint32_t> missing) {
  if (!round_ || round_->asked.empty() || round_->asked.back() != by) return;
  if (missing) suspect(*missing);
}

std::optional<TimePoint> LateRankSearch::next() const {
  return round_ ? std::optional{round_->until} : std::nullopt;
}

}  // namespace pharos::ml
