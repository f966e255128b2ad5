// What every backend has to do, for ranks that are threads and ranks that are processes.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

enum class Are { kThreads, kProcesses, kStreams, kOnMachines, kProcessesOnMachines };

/// On as many machines as that leaves: ranks of one machine.
std::uint32_t on_each(std::uint32_t count) {
  return count == 8 ? 4 : 2;
}

class Conformance : public testing::TestWithParam<std::pair<Are, std::uint32_t>> {
 protected:
  static void run(const Rank& body, const CommunicatorOptions& options = {}) {
    const auto [are, count] = GetParam();
    switch (are) {
      case Are::kThreads: return run_threads(count, options, body);
      case Are::kProcesses: return run_processes(count, options, body);
      case Are::kStreams: return run_streams(count, options, body);
      case Are::kOnMachines: return run_machines(count / on_each(count), on_each(count), options, body);
      case Are::kProcessesOnMachines:
        return run_processes(count, options, join_machines(count / on_each(count), on_each(count), options, false),
                             body);
    }
  }
};

std::string name_of(Are are, std::uint32_t count) {
  constexpr const char* kNames[] = {"Threads", "Processes", "OverTcp", "OnMachines", "ProcessesOnMachines"};
  return std::to_string(count) + kNames[static_cast<int>(are)];
}

/// What rank `rank` gives at `place`: small integers, so that every sum is exact.
template <class T>
T given(std::uint32_t rank, std::size_t place) {
  const auto n = static_cast<int>((place * 7 + rank * 3) % 5);
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(n));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(n));
  } else {
    return static_cast<T>(n);
  }
}
template <class T>
double value_of(T element) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(to_float(element));
  } else {
    return static_cast<double>(element);
  }
}
template <class T>
double reduced(Reduction reduction, std::uint32_t ranks, std::size_t place) {
  double result = value_of(given<T>(0, place));
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const double next = value_of(given<T>(rank, place));
    if (reduction == Reduction::kMax) {
      result = std::max(result, next);
    } else if (reduction == Reduction::kMin) {
      result = std::min(result, next);
    } else {
      result += next;
    }
  }
  if (reduction != Reduction::kMean) return result;
  if constexpr (std::is_integral_v<T>) {
    return std::floor(result / ranks);
  } else if constexpr (std::is_same_v<T, Half>) {
    return value_of(to_half(static_cast<float>(result) / static_cast<float>(ranks)));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return value_of(to_bfloat16(static_cast<float>(result) / static_cast<float>(ranks)));
  } else {
    return static_cast<double>(static_cast<T>(result) / static_cast<T>(ranks));
  }
}

template <class T>
void check_all_reduce(Communicator& ranks, std::span<T> data, Reduction reduction) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = given<T>(ranks.rank(), i);
  ranks.all_reduce(data, reduction);
  for (std::size_t i = 0; i < data.size(); ++i) {
    ASSERT_EQ(value_of(data[i]), reduced<T>(reduction, ranks.size(), i))
        << to_string(kDTypeOf<T>) << ' ' << to_string(reduction) << " of " << data.size() << " at " << i;
  }
}
template <class T>
void check_all_reduces(Communicator& ranks) {
  for (const auto reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin}) {
    for (const std::size_t n : {0UL, 1UL, 2UL, 3UL, 17UL, 1000UL, 70'001UL}) {
      std::vector<T> own(n);
      check_all_reduce<T>(ranks, own, reduction);
    }
  }
}

TEST_P(Conformance, AllReducesOfAllTypesAndSizes) {
  run([](Communicator& ranks) {
    check_all_reduces<std::uint8_t>(ranks);
    check_all_reduces<std::int8_t>(ranks);
    check_all_reduces<std::int32_t>(ranks);
    check_all_reduces<std::int64_t>(ranks);
    check_all_reduces<Half>(ranks);
    check_all_reduces<BFloat16>(ranks);
    check_all_reduces<float>(ranks);
    check_all_reduces<double>(ranks);
    std::vector<float> large(1'000'003);
    check_all_reduce<float>(ranks, large, Reduction::kSum);
    std::vector<BFloat16> large_half(900'001);
    check_all_reduce<BFloat16>(ranks, large_half, Reduction::kMean);
  });
}

TEST_P(Conformance, AllReducesInMemoryOfTheCommunicator) {
  run([](Communicator& ranks) {
    const auto buffer = ranks.allocate<float>(500'000);
    for (const float each : buffer.span()) ASSERT_EQ(each, 0.0F);
    for (const std::size_t n : {1UL, 15UL, 16UL, 17UL, 1000UL, 499'999UL, 500'000UL}) {
      check_all_reduce<float>(ranks, buffer.span().first(n), Reduction::kSum);
      check_all_reduce<float>(ranks, buffer.span().last(n), Reduction::kMean);
    }
    const auto other = ranks.allocate<BFloat16>(1001);
    check_all_reduce<BFloat16>(ranks, other.span(), Reduction::kSum);
    check_all_reduce<float>(ranks, buffer.span().subspan(7, 100'000), Reduction::kMax);
  });
}

TEST_P(Conformance, ResultsAreTheSameBitsOnAllRanks) {
  run([](Communicator& ranks) {
    std::mt19937 random{ranks.rank() + 1};
    std::normal_distribution<float> normal;
    const auto shared = ranks.allocate<float>(300'001);
    for (const std::size_t n : {3UL, 1000UL, 300'001UL}) {
      std::vector<float> own(n);
      for (float& each : own) each = normal(random);
      std::copy(own.begin(), own.end(), shared.data());
      ranks.all_reduce(std::span{own});
      ranks.all_reduce(shared.span().first(n));
      ASSERT_EQ(std::memcmp(own.data(), shared.data(), n * sizeof(float)), 0);
      std::vector<float> all(n * ranks.size());
      ranks.all_gather(std::span<const float>{own}, std::span{all});
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_EQ(std::memcmp(all.data() + rank * n, own.data(), n * sizeof(float)), 0) << "rank " << rank;
      }
    }
  });
}

TEST_P(Conformance, PiecesAreReducedGatheredPassedOnAndExchanged) {
  run([](Communicator& ranks) {
    const std::size_t world = ranks.size();
    for (const std::size_t n : {0UL, 1UL, 5UL, 1000UL, 200'003UL}) {
      const auto shared = ranks.allocate<double>(n * world);
      const auto own_piece = [&](std::uint32_t rank) { return given<double>(rank, 0) + rank; };
      for (const bool in_place : {false, true}) {
        std::vector<double> room(in_place ? 0 : n * world);
        const std::span<double> all = in_place ? shared.span() : std::span{room};
        std::vector<double> piece(n);

        for (std::size_t i = 0; i < all.size(); ++i) all[i] = given<double>(ranks.rank(), i);
        ranks.reduce_scatter(std::span<const double>{all}, std::span{piece});
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(piece[i], reduced<double>(Reduction::kSum, ranks.size(), ranks.rank() * n + i)) << n;
        }

        std::fill(piece.begin(), piece.end(), own_piece(ranks.rank()));
        ranks.all_gather(std::span<const double>{piece}, all);
        for (std::size_t i = 0; i < all.size(); ++i) {
          ASSERT_EQ(all[i], own_piece(static_cast<std::uint32_t>(i / n))) << n;
        }
        ranks.barrier();
      }

      std::vector<double> from(n * world);
      std::vector<double> to(n * world);
      const auto sent = [](std::size_t by, std::size_t for_rank) { return static_cast<double>(by * 1000 + for_rank); };
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = sent(ranks.rank(), i / n);
      ranks.all_to_all(std::span<const double>{from}, std::span{to});
      for (std::size_t i = 0; i < to.size(); ++i) {
        ASSERT_EQ(to[i], sent(i / n, ranks.rank())) << n;
      }

      for (std::uint32_t root = 0; root < ranks.size(); ++root) {
        std::vector<double> data(n, root == ranks.rank() ? 10 + root : 0);
        ranks.broadcast(std::span{data}, root);
        for (const double each : data) ASSERT_EQ(each, 10 + root);
      }
    }
  });
}

TEST_P(Conformance, MessagesOfAnySizeArriveInTheirOrder) {
  run([](Communicator& ranks) {
    const std::uint32_t next = (ranks.rank() + 1) % ranks.size();
    const std::uint32_t before = (ranks.rank() + ranks.size() - 1) % ranks.size();
    if (ranks.size() == 1) return;
    for (const std::size_t n : {0UL, 1UL, 4UL, 5UL, 1000UL, 700'001UL}) {
      const auto value = [&](std::uint32_t rank, std::size_t i) { return static_cast<float>(rank * 7 + i % 1001 + n); };
      std::vector<float> own(n);
      std::vector<float> theirs(n);
      for (std::size_t i = 0; i < n; ++i) own[i] = value(ranks.rank(), i);
      // All send before they receive: it goes on while they wait.
      auto sent = ranks.begin_send(std::span<const float>{own}, next);
      ranks.receive(std::span{theirs}, before);
      sent.wait();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(theirs[i], value(before, i)) << n;
    }
    // From all to all, many at once, waited for backwards.
    std::vector<Pending> pending;
    std::vector<std::int64_t> own(ranks.size() * 50);
    std::vector<std::int64_t> theirs(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int64_t>(ranks.rank() * 10'000 + i);
    for (std::uint32_t other = 0; other < ranks.size(); ++other) {
      for (std::size_t i = 0; i < 50 && other != ranks.rank(); ++i) {
        const std::size_t place = other * 50 + i;
        pending.push_back(ranks.begin_receive(std::span{theirs}.subspan(place, 1), other));
        pending.push_back(ranks.begin_send(std::span<const std::int64_t>{own}.subspan(place, 1), other));
      }
    }
    while (!pending.empty()) pending.pop_back();
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const auto other = static_cast<std::uint32_t>(i / 50);
      if (other == ranks.rank()) continue;
      ASSERT_EQ(theirs[i], static_cast<std::int64_t>(other * 10'000 + ranks.rank() * 50 + i % 50));
    }
  });
}

TEST_P(Conformance, MessagesGoOnBesideWhatAllDo) {
  run([](Communicator& ranks) {
    if (ranks.size() == 1) return;
    // Rank 0 has the message before the sum, rank 1 behind it, in another order than they wait for them; the others
    // have none.
    for (const std::size_t n : {1UL, 300'000UL}) {
      std::vector<double> sum(n, 1);
      std::vector<double> message(n, ranks.rank() == 0 ? 7 : 0);
      if (ranks.rank() == 0) {
        auto sent = ranks.begin_send(std::span<const double>{message}, 1);
        ranks.all_reduce(std::span{sum});
        sent.wait();
      } else if (ranks.rank() == 1) {
        auto added = ranks.begin_all_reduce(std::span{sum});
        ranks.receive(std::span{message}, 0);
        added.wait();
        EXPECT_EQ(message[n - 1], 7);
      } else {
        ranks.all_reduce(std::span{sum});
      }
      EXPECT_EQ(sum[n - 1], ranks.size());
    }
  });
}

TEST_P(Conformance, MessagesOnWhichTwoDoNotAgreeEndAll) {
  run([](Communicator& ranks) {
    if (ranks.size() == 1) return;
    std::vector<float> data(10);
    std::vector<double> other(9);
    const std::string text = message_of<InvalidArgument>([&] {
      if (ranks.rank() == 0) ranks.begin_send(std::span<const float>{data}, 1).wait();
      if (ranks.rank() == 1) ranks.receive(std::span{other}, 0);
      ranks.barrier();
    });
    EXPECT_SAYS(text,
                "rank 0 is at message(10 f32 from rank 0 to rank 1), and rank 1 at message(9 f64 from rank 0 to rank "
                "1), ");
  });
}

TEST_P(Conformance, ManyOperationsAreUnderWayAtOnceAndAreWaitedForInAnyOrder) {
  run([](Communicator& ranks) {
    constexpr std::size_t kBuckets = 200;
    std::vector<Buffer<float>> buckets;
    std::vector<std::vector<float>> own;
    for (std::size_t i = 0; i < 20; ++i) buckets.push_back(ranks.allocate<float>(1000 + i));
    for (int round = 0; round < 3; ++round) {
      std::vector<Pending> pending;
      own.assign(kBuckets, std::vector<float>{});
      for (std::size_t i = 0; i < kBuckets; ++i) {
        own[i].assign(i * 777, static_cast<float>(ranks.rank() + i));
        pending.push_back(ranks.begin_all_reduce(std::span{own[i]}));
        if (i >= buckets.size()) continue;
        for (float& each : buckets[i].span()) each = static_cast<float>(ranks.rank() + i);
        pending.push_back(ranks.begin_all_reduce(buckets[i].span()));
      }
      std::vector<std::size_t> order(pending.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937{ranks.rank()});
      for (const std::size_t each : order) {
        while (each % 3 == 0 && !pending[each].done()) std::this_thread::yield();
        pending[each].wait();
      }
      const auto sum = [&](std::size_t i) {
        const std::size_t of_ranks = ranks.size() * (ranks.size() - 1) / 2;
        return static_cast<float>(ranks.size() * i + of_ranks);
      };
      for (std::size_t i = 0; i < kBuckets; ++i) {
        for (const float each : own[i]) ASSERT_EQ(each, sum(i));
      }
      for (std::size_t i = 0; i < buckets.size(); ++i) {
        for (const float each : buckets[i].span()) ASSERT_EQ(each, sum(i));
      }
    }
  });
}

TEST_P(Conformance, ThousandsOfSmallOnes) {
  run([](Communicator& ranks) {
    for (int n = 0; n < 3000; ++n) {
      double sum = n + ranks.rank();
      ranks.all_reduce(std::span{&sum, 1});
      ASSERT_EQ(sum, n * ranks.size() + ranks.size() * (ranks.size() - 1) / 2.0);
      if (n % 7 == 0) ranks.barrier();
    }
  });
}

TEST_P(Conformance, ADestroyedPendingHasEnded) {
  run([](Communicator& ranks) {
    std::vector<float> data(100'000, 1);
    { [[maybe_unused]] const auto dropped = ranks.begin_all_reduce(std::span{data}); }
    EXPECT_EQ(data[99'999], static_cast<float>(ranks.size()));
    {
      std::vector<float> first(100'000, 1);
      auto pending = ranks.begin_all_reduce(std::span{first});
      pending = ranks.begin_all_reduce(std::span{data});
      EXPECT_EQ(first[0], static_cast<float>(ranks.size()));
    }
    std::vector<std::int32_t> more(3, 1);
    ranks.all_reduce(std::span{more}, Reduction::kMax);
    EXPECT_EQ(more[2], 1);
    const std::string recent = ranks.recent_operations();
    EXPECT_SAYS(recent, "1 all_reduce(sum of 100000 f32) ");
    EXPECT_SAYS(recent, "4 all_reduce(max of 3 i32) ");
    for (int i = 0; i < 1500; ++i) ranks.barrier();
    EXPECT_EQ(std::ranges::count(ranks.recent_operations(), '\n'), 1000);
  });
}

TEST_P(Conformance, WhatMakesNoSenseIsRefusedAtOnceAndEndsNothing) {
  run([](Communicator& ranks) {
    std::vector<float> data(3 * ranks.size() + 1);
    std::vector<float> room(3);
    message_of<InvalidArgument>([&] { ranks.reduce_scatter(std::span<const float>{data}, std::span{room}); });
    message_of<InvalidArgument>([&] { ranks.all_gather(std::span<const float>{room}, std::span{data}); });
    message_of<InvalidArgument>([&] { ranks.broadcast(std::span{room}, ranks.size()); });
    EXPECT_SAYS(message_of<InvalidArgument>([&] { ranks.receive(std::span{room}, ranks.rank()); }), "sends no message");
    message_of<InvalidArgument>([&] { ranks.send(std::span<const float>{room}, ranks.size()); });
    if (ranks.size() > 1) {
      message_of<InvalidArgument>([&] { ranks.all_to_all(std::span<const float>{data}, std::span{data}); });
    }
    ranks.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Conformance,
                         testing::Values(std::pair{Are::kThreads, 1U}, std::pair{Are::kThreads, 2U},
                                         std::pair{Are::kThreads, 3U}, std::pair{Are::kThreads, 8U},
                                         std::pair{Are::kProcesses, 2U}, std::pair{Are::kProcesses, 3U},
                                         std::pair{Are::kProcesses, 4U}, std::pair{Are::kProcesses, 8U},
                                         std::pair{Are::kStreams, 1U}, std::pair{Are::kStreams, 2U},
                                         std::pair{Are::kStreams, 3U}, std::pair{Are::kStreams, 5U},
                                         std::pair{Are::kOnMachines, 4U}, std::pair{Are::kOnMachines, 6U},
                                         std::pair{Are::kOnMachines, 8U}, std::pair{Are::kProcessesOnMachines, 4U}),
                         [](const auto& chosen) { return name_of(chosen.param.first, chosen.param.second); });

}  // namespace
}  // namespace pharos::ml
