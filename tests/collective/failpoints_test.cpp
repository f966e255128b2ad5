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
    {"memory", 3, [] { return join_memory(3, kTimeout); }, kInMemory},
    {"TCP", 3, [] { return join_streams(3, {.timeout = 20s}); }, kOverTcp},
    {"machines", 4, [] { return join_machines(2, 2, {.timeout = 2s}, false); }, on_machines()},
};

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

/// Another process lets the victim go on, once the others are over it.
void go_on_later() {
  const pid_t victim = ::getpid();
  if (::fork() != 0) return;
  std::this_thread::sleep_for(3 * kTimeout);
  ::kill(victim, SIGCONT);
  ::_exit(0);
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
        const auto rank = [&](std::uint32_t number) {
          if (number == kVictim) {
            if (stops) go_on_later();
            order_failpoint({at, GetParam(), passes});
          }
          const auto begin = std::chrono::steady_clock::now();
          const std::string text = error_of_rank(number, join);
          if (number == kVictim) {
            EXPECT_TRUE(stops) << "it did not come there: " << text;
            return;
          }
          EXPECT_SAYS(text, "rank " + std::to_string(kVictim));
          EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
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
    const auto body = [](Communicator& ranks) {
      ranks.check();
      const auto begin = std::chrono::steady_clock::now();
      const std::string text = message_of<ActorDied>([&] {
        ranks.barrier();  // which may hear of it
        if (ranks.rank() == kVictim) ::raise(SIGKILL);
        while (std::chrono::steady_clock::now() - begin < 5s) {
          ranks.check();
          std::this_thread::sleep_for(1ms);
        }
      });
      EXPECT_SAYS(text, "rank 1 has died");
    };
    run_processes(way.ranks, {}, way.join(), body, {kVictim});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RankFailpoints, testing::Values(Action::kKill, Action::kStop),
                         [](const auto& chosen) { return chosen.param == Action::kKill ? "Killed" : "Stopped"; });

}  // namespace
}  // namespace pharos::ml
