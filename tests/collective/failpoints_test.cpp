// A rank is killed or stopped at each failpoint, in each backend.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/collective/failpoints.hpp>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Action = FailpointOrder::Action;

constexpr std::uint32_t kVictim = 1;
/// How long ranks wait for each other. It is long where a rank is killed, because the others learn of the death at
/// once.
constexpr CommunicatorOptions kLong{.timeout = 20s};
constexpr CommunicatorOptions kShort{.timeout = 400ms};
constexpr CommunicatorOptions kShortComing{.timeout = 2s};

struct Way {
  const char* name;
  std::uint32_t ranks;
  Join (*join)(const CommunicatorOptions& coming);
  std::vector<Failpoint> passes;
};

const std::vector<Failpoint> kInMemory{
    failpoints::kRankHere,    failpoints::kMemoryOffered, failpoints::kMemoryMapped,  failpoints::kDataGiven,
    failpoints::kPartReduced, failpoints::kResultTaken,   failpoints::kLetterWritten, failpoints::kLetterRead};
const std::vector<Failpoint> kOverTcp{failpoints::kBeginTold, failpoints::kPartSent, failpoints::kPartCame};

std::vector<Failpoint> on_machines() {
  std::vector<Failpoint> all = kInMemory;
  all.insert(all.end(), kOverTcp.begin(), kOverTcp.end());
  all.insert(all.end(), {failpoints::kLaneBegins, failpoints::kLaneEnded});
  return all;
}

const std::vector<Way> kWays{
    {"memory", 3, [](const auto& coming) { return join_memory(3, coming.timeout); }, kInMemory},
    {"TCP", 3, [](const auto& coming) { return join_streams(3, coming); }, kOverTcp},
    {"machines", 4, [](const auto& coming) { return join_machines(2, 2, coming, false); }, on_machines()},
};

/// How long the other ranks wait for a rank that is stopped at a failpoint. Ranks also allocate memory when they join.
Duration deadline_at(Failpoint at) {
  const bool comes = at == failpoints::kRankHere || at == failpoints::kMemoryOffered || at == failpoints::kMemoryMapped;
  return (comes ? kShortComing : kShort).timeout;
}

/// Runs all operations many times.
void work(Communicator& ranks) {
  std::vector<double> own(40'000, 1);
  const std::uint32_t other = ranks.size() - 1;
  for (int round = 0; round < 50; ++round) {
    const auto shared = ranks.allocate<float>(100'000);
    if (ranks.shares_memory()) ranks.allocate_for_all<float>(100'000);
    ranks.all_reduce(shared.span());
    ranks.all_reduce(std::span{own});
    ranks.all_reduce(std::span{own}.first(100));
    if (ranks.rank() == kVictim) {
      for (const std::uint32_t each : {0U, other}) {
        ranks.send(std::span<const double>{own}, each);
        ranks.receive(std::span{own}, each);
      }
    } else if (ranks.rank() == 0 || ranks.rank() == other) {
      ranks.receive(std::span{own}, kVictim);
      ranks.send(std::span<const double>{own}, kVictim);
    }
    ranks.barrier();
  }
}

/// Joins and works as that rank, and returns the error that it throws.
std::string error_of_rank(std::uint32_t rank, const Join& join, const CommunicatorOptions& options) {
  try {
    auto backend = join(rank);
    if (!backend) throw_error(backend.error());
    Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), options)};
    work(ranks);
    return "nothing";
  } catch (const std::exception& e) {
    return e.what();
  }
}

class RankFailpoints : public testing::TestWithParam<Action> {};

TEST_P(RankFailpoints, EndAllOthersWithTheRank) {
  const bool stops = GetParam() == Action::kStop;
  const Times told;
  for (const Way& way : kWays) {
    for (const Failpoint at : way.passes) {
      const bool before_all_have_come = at == failpoints::kRankHere;
      for (const std::uint32_t passes : {0U, 3U}) {
        if (passes != 0 && (stops || before_all_have_come)) continue;
        SCOPED_TRACE(std::string{way.name} + ", " + std::string{at.name()} + " after " + std::to_string(passes));
        const Join join = way.join(stops ? kShortComing : kLong);
        const LifeSign life;
        const auto rank = [&](std::uint32_t number) {
          if (number == kVictim) {
            order_failpoint({at, GetParam(), passes});
            life.keep_giving();
          }
          const std::string text = error_of_rank(number, join, stops ? kShort : kLong);
          const Duration since = life.since();
          if (number == kVictim) {
            EXPECT_TRUE(stops) << "it did not come there: " << text;
            return;
          }
          EXPECT_SAYS(text, "rank " + std::to_string(kVictim));
          told.add(stops ? since - deadline_at(at) : since);
          if (!stops) {
            EXPECT_SAYS(text, " has died");
          }
        };
        run_children(way.ranks, rank, {kVictim});
        if (HasFailure()) return;
      }
    }
  }
  told.expect_within(stops ? kDeadlineIsToldIn : kDeathIsToldIn);
}

TEST(RankCheck, SeesThatARankHasDiedThoughNobodyWaitsForIt) {
  const Times told;
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    const LifeSign life;
    const auto body = [&](Communicator& ranks) {
      ranks.check();
      const std::string text = message_of<ActorDied>([&] {
        ranks.barrier();  // this barrier may already fail
        if (ranks.rank() == kVictim) {
          life.give();
          ::raise(SIGKILL);
        }
        const auto begin = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - begin < 5s) {
          ranks.check();
          std::this_thread::sleep_for(1ms);
        }
      });
      told.add(life.since());
      EXPECT_SAYS(text, "rank 1 has died");
    };
    run_processes(way.ranks, {}, way.join(kLong), body, {kVictim});
  }
  told.expect_within(kDeathIsToldIn);
}

INSTANTIATE_TEST_SUITE_P(Ranks, RankFailpoints, testing::Values(Action::kKill, Action::kStop),
                         [](const auto& chosen) { return chosen.param == Action::kKill ? "Killed" : "Stopped"; });

}  // namespace
}  // namespace pharos::ml
