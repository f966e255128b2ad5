// A rank that is killed or stopped at each place in the code that says so, in each backend.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <pharos/base/failpoint.hpp>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using Action = FailpointOrder::Action;

constexpr std::uint32_t kVictim = 1;
constexpr Duration kTimeout = 400ms;

struct Way {
  const char* name;
  std::uint32_t ranks;
  Join (*join)();
  Duration time_to_come;
  std::vector<Failpoint> passes;
};

const std::vector<Failpoint> kInMemory{Failpoint::kRankHere,      Failpoint::kMemoryOffered, Failpoint::kMemoryMapped,
                                       Failpoint::kDataGiven,     Failpoint::kPartReduced,   Failpoint::kResultTaken,
                                       Failpoint::kLetterWritten, Failpoint::kLetterRead};
const std::vector<Failpoint> kOverTcp{Failpoint::kBeginTold, Failpoint::kPartSent, Failpoint::kPartCame};

std::vector<Failpoint> on_machines() {
  std::vector<Failpoint> all = kInMemory;
  all.insert(all.end(), kOverTcp.begin(), kOverTcp.end());
  all.insert(all.end(), {Failpoint::kLaneBegins, Failpoint::kLaneEnded});
  return all;
}

const std::vector<Way> kWays{
    {"memory", 3, [] { return join_memory(3, kTimeout); }, kTimeout, kInMemory},
    {"TCP", 3, [] { return join_streams(3, {.timeout = 20s}); }, 20s, kOverTcp},
    {"machines", 4, [] { return join_machines(2, 2, {.timeout = 2s}, false); }, 2s, on_machines()},
};

/// How long the others wait for one that is stopped there; they allocate memory when they come, too.
Duration deadline_at(Failpoint at, const Way& way) {
  const bool comes = at == Failpoint::kRankHere || at == Failpoint::kMemoryOffered || at == Failpoint::kMemoryMapped;
  return comes ? way.time_to_come : kTimeout;
}

/// All that there is, many times.
void work(Communicator& ranks) {
  std::vector<double> own(40'000, 1);
  const std::uint32_t other = ranks.size() - 1;
  for (int round = 0; round < 50; ++round) {
    const auto shared = ranks.allocate<float>(100'000);
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

/// What it has thrown.
std::string error_of_rank(std::uint32_t rank, const Join& join) {
  try {
    auto backend = join(rank);
    if (!backend) throw_error(backend.error());
    Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), CommunicatorOptions{.timeout = kTimeout})};
    work(ranks);
    return "nothing";
  } catch (const std::exception& e) {
    return e.what();
  }
}

class RankFailpoints : public testing::TestWithParam<Action> {};

TEST_P(RankFailpoints, EndAllOthersWithTheRank) {
  const bool stops = GetParam() == Action::kStop;
  for (const Way& way : kWays) {
    for (const Failpoint at : way.passes) {
      const bool before_all_have_come = at == Failpoint::kRankHere;
      for (const std::uint32_t passes : {0U, 3U}) {
        if (passes != 0 && (stops || before_all_have_come)) continue;
        SCOPED_TRACE(std::string{way.name} + ", " + std::string{name_of(at)} + " after " + std::to_string(passes));
        const Join join = way.join();
        const LifeSign life;
        const auto rank = [&](std::uint32_t number) {
          if (number == kVictim) {
            order_failpoint({at, GetParam(), passes});
            life.keep_giving();
          }
          const std::string text = error_of_rank(number, join);
          const Duration since = life.since();
          if (number == kVictim) {
            EXPECT_TRUE(stops) << "it did not come there: " << text;
            return;
          }
          EXPECT_SAYS(text, "rank " + std::to_string(kVictim));
          EXPECT_LT(since, stops ? deadline_at(at, way) + kDeadlineIsToldIn : Duration{kDeathIsToldIn});
          if (!stops) {
            EXPECT_SAYS(text, " has died");
          }
        };
        run_children(way.ranks, rank, {kVictim});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(RankCheck, SeesThatARankHasDiedThoughNobodyWaitsForIt) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    const LifeSign life;
    const auto body = [&](Communicator& ranks) {
      ranks.check();
      const std::string text = message_of<ActorDied>([&] {
        ranks.barrier();  // which may hear of it
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
      EXPECT_LT(life.since(), kDeathIsToldIn);
      EXPECT_SAYS(text, "rank 1 has died");
    };
    run_processes(way.ranks, {}, way.join(), body, {kVictim});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RankFailpoints, testing::Values(Action::kKill, Action::kStop),
                         [](const auto& chosen) { return chosen.param == Action::kKill ? "Killed" : "Stopped"; });

}  // namespace
}  // namespace pharos::ml
