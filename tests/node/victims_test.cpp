#include "workers/victims.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

enum class Worth { kIdle, kRetriable, kOther };

Candidate since(int seconds, Worth worth) {
  return {.idle = worth == Worth::kIdle,
          .may_run_again = worth == Worth::kRetriable,
          .since = TimePoint{std::chrono::seconds{seconds}}};
}

TEST(Victims, OfNobodyNobodyIsChosen) {
  EXPECT_FALSE(choose_victim({}));
}

TEST(Victims, TheIdleGoFirstThenWhatIsDoneAgainThenTheRestOfEachTheNewest) {
  struct Case {
    std::vector<Candidate> candidates;
    std::size_t chosen;
  };
  const std::vector<Case> cases{
      {{since(1, Worth::kOther)}, 0},
      {{since(1, Worth::kOther), since(2, Worth::kOther)}, 1},
      {{since(2, Worth::kOther), since(1, Worth::kOther)}, 0},
      {{since(1, Worth::kRetriable), since(2, Worth::kOther)}, 0},
      {{since(9, Worth::kOther), since(1, Worth::kRetriable), since(2, Worth::kRetriable)}, 2},
      {{since(9, Worth::kOther), since(8, Worth::kRetriable), since(1, Worth::kIdle)}, 2},
      {{since(2, Worth::kIdle), since(8, Worth::kRetriable), since(3, Worth::kIdle)}, 2},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(choose_victim(each.candidates), each.chosen) << "case " << &each - cases.data();
  }
}

TEST(Victims, WhoHasNextToNothingIsSpared) {
  const auto with = [](Candidate candidate, std::uint64_t mebibytes) {
    candidate.memory = ByteCount{mebibytes << 20};
    return candidate;
  };
  const std::vector<Candidate> candidates{with(since(1, Worth::kOther), 640), with(since(2, Worth::kRetriable), 20),
                                          with(since(3, Worth::kIdle), 19)};
  EXPECT_EQ(choose_victim(candidates), 1u);
  EXPECT_EQ(choose_victim(std::span{candidates}.subspan(1)), 1u);
}

TEST(Victims, AllGoInThatOrderWhateverTheOrderOfTheirNames) {
  std::vector<Candidate> left{since(1, Worth::kOther), since(4, Worth::kIdle),  since(6, Worth::kRetriable),
                              since(3, Worth::kIdle),  since(2, Worth::kOther), since(5, Worth::kRetriable)};
  std::vector<std::int64_t> order;
  while (const auto chosen = choose_victim(left)) {
    order.push_back(std::chrono::duration_cast<std::chrono::seconds>(left[*chosen].since.time_since_epoch()).count());
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(*chosen));
  }
  EXPECT_EQ(order, (std::vector<std::int64_t>{4, 3, 6, 5, 2, 1}));
}

}  // namespace
}  // namespace pharos::node
