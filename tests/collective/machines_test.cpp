// Ranks on several machines that disagree, do not come, leave or give up, and the sums of the ranks.

#include <chrono>
#include <ctime>
#include <random>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

/// Ranks 0 and 1 are on one machine, 2 and 3 on the other.
void run_four(const Rank& body, const CommunicatorOptions& options = {}) {
  run_machines(2, 2, options, body);
}

TEST(Machines, DisagreementIsToldOnAllRanksWhereverItIs) {
  for (const std::uint32_t other : {1U, 2U, 3U}) {
    run_four([&](Communicator& ranks) {
      std::vector<float> data(100'000);
      const std::string text = message_of<InvalidArgument>([&] {
        if (ranks.rank() == other) ranks.broadcast(std::span{data}, 3);
        ranks.all_reduce(std::span{data});
        ranks.barrier();
      });
      EXPECT_SAYS(text, "called all_reduce(sum of 100000 f32)");
      EXPECT_SAYS(text, "called broadcast(100000 f32 from rank 3)");
      EXPECT_SAYS(text, "rank " + std::to_string(other));
    });
  }
  // All ranks of one machine disagree with all ranks of the other.
  for (const bool in_place : {false, true}) {
    run_four([&](Communicator& ranks) {
      const auto shared = ranks.allocate<double>(40'000);
      const std::vector<double> from(40'000);
      std::vector<double> own(40'000);
      const std::span<double> data = in_place ? shared.span() : std::span{own};
      const std::string text = message_of<InvalidArgument>([&] {
        if (ranks.rank() < 2) ranks.all_to_all(std::span{from}, data);
        ranks.all_reduce(data, Reduction::kMax);
        ranks.barrier();
      });
      EXPECT_SAYS(text, "called all_to_all(40000 f64)");
      EXPECT_SAYS(text, "called all_reduce(max of 40000 f64)");
    });
  }
  run_four([](Communicator& ranks) {
    const std::string text = message_of<InvalidArgument>([&] {
      static_cast<void>(ranks.allocate<float>(ranks.rank() < 2 ? 10 : 11));
      ranks.barrier();
    });
    EXPECT_SAYS(text, "called allocate(40 bytes)");
    EXPECT_SAYS(text, "called allocate(44 bytes)");
  });
}

TEST(Machines, WhoIsMissingIsNamedOnAllRanks) {
  for (const std::uint32_t absent : {0U, 1U, 2U, 3U}) {
    for (const std::size_t n : {10UL, 100'000UL}) {
      const auto all_reduce_without = [&](Communicator& ranks, auto&& instead) {
        std::vector<float> data(n);
        if (ranks.rank() == absent) return instead();
        EXPECT_SAYS(message_of<DeadlineExceeded>([&] {
                      for (;;) ranks.all_reduce(std::span{data});
                    }),
                    "waits for rank " + std::to_string(absent));
      };
      run_four([&](Communicator& ranks) { all_reduce_without(ranks, [] { std::this_thread::sleep_for(1s); }); },
               {.timeout = 300ms});
    }
    run_four([&](Communicator& ranks) {
      if (ranks.rank() == absent) return;
      EXPECT_SAYS(message_of<ActorDied>([&] { ranks.barrier(); }),
                  "rank " + std::to_string(absent) + " has left the group");
    });
    run_four([&](Communicator& ranks) {
      if (ranks.rank() == absent) return ranks.abort("the disk is full");
      EXPECT_SAYS(message_of<Cancelled>([&] { ranks.barrier(); }),
                  "rank " + std::to_string(absent) + " has given up: the disk is full");
    });
  }
}

TEST(Machines, WaitingTakesNoCpu) {
  const CommunicatorOptions options{};
  run_processes(4, options, join_machines(2, 2, options, false), [](Communicator& ranks) {
    std::vector<float> data(100'000);
    ranks.all_reduce(std::span{data});
    timespec before{};
    timespec after{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    if (ranks.rank() == 0) std::this_thread::sleep_for(1s);
    ranks.all_reduce(std::span{data});
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double used =
        static_cast<double>(after.tv_sec - before.tv_sec) + static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e9;
    EXPECT_LT(used, 0.05);
  });
}

/// A rank fails before it has met its neighbours, because another rank of its machine may already have found all
/// others.
TEST(Machines, WhoeverDoesNotReachTheOthersTellsTheNeighbours) {
  for (const bool is_told : {true, false}) {
    auto memory = Mapping::of(-1, Meeting::bytes_for(2));
    ASSERT_TRUE(memory);
    const auto threads = std::make_shared<ThreadMemory>(*std::move(memory));
    const HierarchicalBackend::Layout layout{.rank = 2, .machines = 2, .on_each = 2};
    auto near = std::make_unique<SharedBackend>(threads, 0, layout.neighbours());
    const auto does_not_reach = [](const StreamSteps&) -> Result<std::unique_ptr<StreamBackend>> {
      return Error{ErrorCode::kActorDied, "rank 1 has died"};
    };
    if (is_told) {
      EXPECT_FALSE(HierarchicalBackend::make(layout, std::move(near), {}, 5s, does_not_reach));
    } else {
      near.reset();
    }
    SharedBackend neighbour{threads, 1, layout.neighbours()};
    const auto met = neighbour.meet(5s, {});
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code(), ErrorCode::kActorDied);
    EXPECT_SAYS(met.error().message(), is_told ? "rank 1 has died" : "rank 2 has left the group");
  }
}

/// The sums of the machines, each in the order of its ranks, are added in the order of the machines. A mean is divided
/// once.
TEST(Machines, SumsAreThoseOfEachMachineSummedUp) {
  run_four([](Communicator& ranks) {
    std::vector<std::vector<double>> all(4, std::vector<double>(50'000));
    std::mt19937 random{7};
    std::normal_distribution<double> normal;
    for (auto& of_rank : all) {
      for (double& each : of_rank) each = normal(random);
    }
    for (const auto reduction : {Reduction::kSum, Reduction::kMean}) {
      for (const std::size_t n : {100UL, 50'000UL}) {
        std::vector<double> own = all[ranks.rank()];
        ranks.all_reduce(std::span{own}.first(n), reduction);
        for (std::size_t i = 0; i < n; ++i) {
          const double sum = (all[0][i] + all[1][i]) + (all[2][i] + all[3][i]);
          ASSERT_EQ(own[i], reduction == Reduction::kMean ? sum / 4 : sum) << i << " of " << n;
        }
      }
    }
  });
}

}  // namespace
}  // namespace pharos::ml
