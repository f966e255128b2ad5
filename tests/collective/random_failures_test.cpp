// Ranks that are killed or stopped at random instants of whatever they do together, in each backend.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

enum class Way { kMemory, kStreams, kMachines };
enum class Fate { kKilled, kStopped };

unsigned rounds() {
  const char* const text = ::getenv("PHAROS_TEST_ROUNDS");
  return text == nullptr ? 20 : static_cast<unsigned>(std::atoi(text));
}

/// PHAROS_TEST_ROUNDS says how many; a round's number is its seed.
class RandomFailures : public testing::TestWithParam<std::pair<Way, Fate>> {
 protected:
  static constexpr Duration kTimeout = 1s;

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

  static Join join(Way way, std::uint32_t count) {
    constexpr CommunicatorOptions kOptions{.timeout = 20s};
    switch (way) {
      case Way::kMemory: return join_memory(count, kOptions.timeout);
      case Way::kStreams: return join_streams(count, kOptions);
      case Way::kMachines: return join_machines(count / 2, 2, kOptions, false);
    }
    return {};
  }

  static void befall(Fate fate, Duration when) {
    std::thread{[=] {
      std::this_thread::sleep_for(when);
      if (fate == Fate::kStopped && ::fork() == 0) {
        ::sleep(3);  // longer than the others wait
        ::kill(::getppid(), SIGCONT);
        ::_exit(0);
      }
      ::raise(fate == Fate::kKilled ? SIGKILL : SIGSTOP);
    }}.detach();
  }
};

TEST_P(RandomFailures, EndAllOthersWithTheRank) {
  const Way way = GetParam().first;
  const Fate fate = GetParam().second;
  const bool stops = fate == Fate::kStopped;
  for (unsigned seed = 1; seed <= (stops ? (rounds() + 9) / 10 : rounds()); ++seed) {
    std::mt19937 random{seed};
    const auto chosen = static_cast<std::uint32_t>(random() % 3);
    const std::uint32_t count = way == Way::kMachines ? 4 + 2 * (chosen % 2) : 2 + chosen;
    const auto victim = static_cast<std::uint32_t>(random() % count);
    const auto when = std::chrono::microseconds{random() % 8000};
    const auto same = static_cast<unsigned>(random());
    const CommunicatorOptions options{.timeout = stops ? kTimeout : Duration{20s}};
    const auto rank = [&](Communicator& ranks) {
      std::mt19937 choices{same};
      ranks.barrier();
      const auto begin = std::chrono::steady_clock::now();
      if (ranks.rank() == victim) befall(fate, when);
      const std::string who = "rank " + std::to_string(victim);
      if (ranks.rank() == victim) {
        EXPECT_ANY_THROW(work(ranks, choices));
      } else if (stops) {
        EXPECT_SAYS(message_of<DeadlineExceeded>([&] { work(ranks, choices); }), "waits for " + who);
      } else {
        EXPECT_SAYS(message_of<ActorDied>([&] { work(ranks, choices); }), who + " has died");
        EXPECT_LT(std::chrono::steady_clock::now() - begin, when + 2s);
      }
    };
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_processes(count, options, join(way, count), rank, {victim});
    if (HasFailure()) return;
  }
}

std::string name_of(Way way, Fate fate) {
  constexpr const char* kWays[] = {"Memory", "Streams", "Machines"};
  return std::string{kWays[static_cast<int>(way)]} + (fate == Fate::kKilled ? "Killed" : "Stopped");
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, RandomFailures,
    testing::Values(std::pair{Way::kMemory, Fate::kKilled}, std::pair{Way::kMemory, Fate::kStopped},
                    std::pair{Way::kStreams, Fate::kKilled}, std::pair{Way::kStreams, Fate::kStopped},
                    std::pair{Way::kMachines, Fate::kKilled}, std::pair{Way::kMachines, Fate::kStopped}),
    [](const auto& chosen) { return name_of(chosen.param.first, chosen.param.second); });

}  // namespace
}  // namespace pharos::ml
