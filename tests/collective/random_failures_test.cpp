// Ranks are killed or stopped at random instants during any operation, in each backend. The other ranks go on without
// them.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>

#include "ranks.hpp"
#include "seed.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

enum class Transport { kMemory, kStreams, kMachines };
enum class Fate { kKilled, kStopped };

/// Resources that the process of a rank holds. They are as before when the rank has left its group.
struct Holdings {
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t shared_mappings = 0;

  static Holdings now() {
    Holdings its;
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    its.descriptors = std::distance(begin(all), end(all));
    std::ifstream maps{"/proc/self/maps"};
    for (std::string place, access, rest; maps >> place >> access && std::getline(maps, rest);) {
      its.shared_mappings += access.ends_with('s') ? 1 : 0;
    }
    return its;
  }
};

/// PHAROS_TEST_ROUNDS is the number of rounds; the number of a round is its seed.
class RandomFailures : public testing::TestWithParam<std::pair<Transport, Fate>> {
 protected:
  static constexpr Duration kTimeout = kIsSanitized ? 2s : 300ms;

  static void work(Communicator& ranks, std::mt19937& same) {
    const auto shared = ranks.allocate<float>(300'000);
    std::vector<double> own(40'000, 1);
    std::vector<double> all(own.size() * ranks.size());
    for (;;) {
      switch (same() % 7) {
        case 0: ranks.all_reduce(shared.span()); break;
        case 1: ranks.all_reduce(std::span{own}, Reduction::kMax); break;
        case 2: ranks.all_gather(std::span<const double>{own}, std::span{all}); break;
        case 3: ranks.broadcast(std::span{own}, static_cast<std::uint32_t>(same() % ranks.size())); break;
        case 4: ranks.barrier(); break;
        case 5: {
          const auto first = ranks.begin_all_reduce(shared.span().first(1000));
          const auto second = ranks.begin_all_reduce(std::span{own}.first(100));
          break;
        }
        default:
          if (ranks.rank() == 0) ranks.send(std::span<const double>{own}, 1);
          if (ranks.rank() == 1) ranks.receive(std::span{own}, 0);
          break;
      }
    }
  }

  static Join join(Transport transport, std::uint32_t count) {
    constexpr CommunicatorOptions kOptions{.timeout = 20s};
    switch (transport) {
      case Transport::kMemory: return join_memory(count, kOptions.timeout);
      case Transport::kStreams: return join_streams(count, kOptions);
      case Transport::kMachines: return join_machines(count / 2, 2, kOptions, false);
    }
    return {};
  }
  /// Joins the ranks without the one that is lost. Machines with different numbers of ranks use only TCP.
  static Join join_survivors(Transport transport, std::uint32_t count) {
    return join(transport == Transport::kMachines ? Transport::kStreams : transport, count - 1);
  }
  /// Shared memory where ranks meet is mapped before the ranks are started, and each group unmaps its own when it ends.
  static std::ptrdiff_t met_in_memory(Transport transport) {
    return transport == Transport::kMemory ? 2 : transport == Transport::kMachines ? 1 : 0;
  }

  static void expect_sums(Communicator& ranks) {
    std::vector<double> data(20'000, ranks.rank() + 1);
    ranks.all_reduce(std::span{data});
    const double sum = ranks.size() * (ranks.size() + 1) / 2.0;
    EXPECT_EQ(std::ranges::count(data, sum), 20'000);
  }

  static void befall(Fate fate, Duration when, const LifeSign& life) {
    std::thread{[=, &life] {
      std::this_thread::sleep_for(when);
      life.give();
      ::raise(fate == Fate::kKilled ? SIGKILL : SIGSTOP);
    }}.detach();
  }
};

TEST_P(RandomFailures, EndAllOthersWithTheRankAndTheyGoOnInANewTerm) {
  const Transport transport = GetParam().first;
  const Fate fate = GetParam().second;
  const bool stops = fate == Fate::kStopped;
  const Times told;
  const auto rounds = static_cast<unsigned>(rounds_of_test(20));
  for (unsigned seed = 1; seed <= rounds; ++seed) {
    std::mt19937 random{seed};
    const auto chosen = static_cast<std::uint32_t>(random() % 3);
    const std::uint32_t count = transport == Transport::kMachines ? 4 + 2 * (chosen % 2) : 2 + chosen;
    const auto victim = static_cast<std::uint32_t>(random() % count);
    const auto when = std::chrono::microseconds{random() % 8000};
    const auto same = static_cast<unsigned>(random());
    const CommunicatorOptions options{.timeout = stops ? kTimeout : Duration{20s}};
    const LifeSign life;
    const auto rank = [&](Communicator& ranks) {
      std::mt19937 choices{same};
      const auto until_it_fails = [&] {
        ranks.barrier();  // this barrier may already fail at some ranks
        if (ranks.rank() == victim) befall(fate, when, life);
        work(ranks, choices);
      };
      const std::string who = "rank " + std::to_string(victim);
      if (ranks.rank() == victim) {
        EXPECT_ANY_THROW(until_it_fails());
      } else if (stops) {
        EXPECT_SAYS(message_of<DeadlineExceeded>(until_it_fails), "waits for " + who);
        told.add(life.since());
      } else {
        EXPECT_SAYS(message_of<ActorDied>(until_it_fails), who + " has died");
        told.add(life.since());
      }
    };
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Join first = join(transport, count);
    const Join next = join_survivors(transport, count);
    const auto child = [&](std::uint32_t number) {
      const Holdings before = Holdings::now();
      run_as_rank(number, options, first, rank);
      if (number == victim) return;
      run_as_rank(number - (number > victim ? 1 : 0), {.timeout = 20s}, next, expect_sums);
      const Holdings after = Holdings::now();
      EXPECT_EQ(after.descriptors, before.descriptors);
      EXPECT_EQ(after.shared_mappings, before.shared_mappings - met_in_memory(transport));
    };
    run_children(count, child, {victim});
    if (HasFailure()) return;
  }
  told.expect_within(stops ? kTimeout + kDeadlineIsToldIn : Duration{kDeathIsToldIn});
}

std::string name_of(Transport transport, Fate fate) {
  constexpr const char* kNames[] = {"Memory", "Streams", "Machines"};
  return std::string{kNames[static_cast<int>(transport)]} + (fate == Fate::kKilled ? "Killed" : "Stopped");
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, RandomFailures,
    testing::Values(std::pair{Transport::kMemory, Fate::kKilled}, std::pair{Transport::kMemory, Fate::kStopped},
                    std::pair{Transport::kStreams, Fate::kKilled}, std::pair{Transport::kStreams, Fate::kStopped},
                    std::pair{Transport::kMachines, Fate::kKilled}, std::pair{Transport::kMachines, Fate::kStopped}),
    [](const auto& chosen) { return name_of(chosen.param.first, chosen.param.second); });

}  // namespace
}  // namespace pharos::ml
