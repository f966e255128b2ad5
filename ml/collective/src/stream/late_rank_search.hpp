#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/error.hpp>

namespace pharos::ml {

/// The search for the rank that holds the others up. The rank that this one waits for is asked which rank it waits for,
/// and so on, until a rank waits for nobody or does not answer: that rank is named. This is done twice, and the result
/// of the second time counts, because messages that were on their way at the first time have come then. Owned by
/// StreamLoop. One thread, on which it calls `missing` and `ask`, inside of go_on() and answered(); what they use
/// outlives it. It does no I/O, and the time goes in as an argument. Answers that come too late, or from another rank,
/// are ignored.
class LateRankSearch {
 public:
  /// Returns the rank that this rank waits for; nullopt if it waits for none.
  using WhoIsMissing = std::function<std::optional<std::uint32_t>()>;
  /// Asks a rank which rank it waits for. Its answer comes by answered().
  using Ask = std::function<void(std::uint32_t rank)>;

  /// This rank is number `rank` of `ranks`.
  LateRankSearch(std::uint32_t rank, std::uint32_t ranks, WhoIsMissing missing, Ask ask);

  /// Begins or continues the search while `overdue` says what has been waited for too long, such as "barrier, operation
  /// 7,". Without it the search ends. Returns nullopt as long as the search lasts, about half a second. Then it returns
  /// kDeadlineExceeded, which names the rank, or no rank if this one waits for no other.
  std::optional<Error> go_on(const std::optional<std::string>& overdue, TimePoint now);
  /// Rank `by` waits for the rank `missing`, or for none.
  void answered(std::uint32_t by, std::optional<std::uint32_t> missing);
  /// The time at which go_on() is to be called next; nullopt if no search is under way.
  std::optional<TimePoint> next() const;

 private:
  struct Round {
    std::vector<std::uint32_t> asked{};  // the chain of ranks so far
    TimePoint until{};
    int times = 0;
  };
  void ask_again(TimePoint now);
  void suspect(std::uint32_t rank);

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const WhoIsMissing missing_;
  const Ask ask_;
  std::string what_;
  std::optional<Round> round_;  // none if no search is under way
};

}  // namespace pharos::ml
