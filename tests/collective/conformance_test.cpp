// The behaviour that every backend must have, for ranks that are threads and ranks that are processes.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "each_backend.hpp"

namespace pharos::ml {
namespace {

class Conformance : public EachBackend {};

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
      // All ranks send before they receive: data is sent while they wait.
      auto sent = ranks.begin_send(std::span<const float>{own}, next);
      ranks.receive(std::span{theirs}, before);
      sent.wait();
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(theirs[i], value(before, i)) << n;
    }
    // From all ranks to all, many messages at once, waited for in reverse order.
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
    // Rank 0 begins the message before the sum and rank 1 after it, and each waits in another order. The other ranks
    // have no message.
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

TEST_P(Conformance, MemoryIsAllocatedWhileMessagesAndSumsAreUnderWay) {
  run([](Communicator& ranks) {
    if (ranks.size() == 1) return;
    for (const std::size_t n : {1UL, 1'000'000UL}) {
      std::vector<double> message(n, ranks.rank() == 0 ? 7 : 0);
      // The message goes to a rank that receives it before it allocates, and comes from a rank that sends it later.
      if (ranks.rank() == 0) {
        auto sent = ranks.begin_send(std::span<const double>{message}, 1);
        EXPECT_EQ(ranks.allocate<float>(n).size(), n);
        sent.wait();
        auto received = ranks.begin_receive(std::span{message}, 1);
        EXPECT_EQ(ranks.allocate<float>(n).size(), n);
        received.wait();
        EXPECT_EQ(message[n - 1], 8);
      } else {
        if (ranks.rank() == 1) ranks.receive(std::span{message}, 0);
        EXPECT_EQ(ranks.allocate<float>(n).size(), n);
        EXPECT_EQ(ranks.allocate<float>(n).size(), n);
        if (ranks.rank() == 1) {
          EXPECT_EQ(message[n - 1], 7);
          message[n - 1] = 8;
          ranks.send(std::span<const double>{message}, 0);
        }
      }
      // Rank 1 waits for the first of two sums before it allocates, and the other ranks wait for neither.
      std::vector<double> large(n, 1);
      std::vector<float> small(1, 1);
      auto first = ranks.begin_all_reduce(std::span{large});
      auto second = ranks.begin_all_reduce(std::span{small});
      if (ranks.rank() == 1) first.wait();
      EXPECT_EQ(ranks.allocate<float>(n).size(), n);
      first.wait();
      second.wait();
      EXPECT_EQ(large[n - 1], ranks.size());
      EXPECT_EQ(small[0], static_cast<float>(ranks.size()));
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
    EXPECT_SAYS(
        text,
        "rank 0 called message(10 f32 from rank 0 to rank 1), and rank 1 called message(9 f64 from rank 0 to rank "
        "1)");
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

TEST_P(Conformance, OperationsOfAllKindsAreUnderWayAtOnce) {
  run([](Communicator& ranks) {
    constexpr std::size_t kOperations = 60;
    const std::size_t world = ranks.size();
    struct Data {
      std::vector<double> from{};
      std::vector<double> to{};
      std::vector<double> expected{};
    };
    // The operations have different lengths: some go in one piece, some in several.
    std::vector<Data> all(kOperations);
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < kOperations; ++i) {
      auto& [from, to, expected] = all[i];
      const std::size_t n = i * i * 3;
      const auto value = [&](std::size_t rank, std::size_t piece) {
        return static_cast<double>(rank * 1000 + piece * 10 + i);
      };
      const auto sum = [&](std::size_t piece) {
        double result = 0;
        for (std::size_t rank = 0; rank < world; ++rank) result += value(rank, piece);
        return result;
      };
      // Pieces of n elements, each with its own value.
      const auto pieces = [n](std::size_t count, const auto& value_of_piece) {
        std::vector<double> data;
        for (std::size_t piece = 0; piece < count; ++piece) data.insert(data.end(), n, value_of_piece(piece));
        return data;
      };
      const auto own = [&](std::size_t piece) { return value(ranks.rank(), piece); };
      const std::uint32_t root = static_cast<std::uint32_t>(i % world);
      switch (i % 5) {
        case 0:
          to = pieces(1, own);
          expected = pieces(1, sum);
          pending.push_back(ranks.begin_all_reduce(std::span{to}));
          break;
        case 1:
          from = pieces(world, own);
          to.resize(n);
          expected = pieces(1, [&](std::size_t) { return sum(ranks.rank()); });
          pending.push_back(ranks.begin_reduce_scatter(std::span<const double>{from}, std::span{to}));
          break;
        case 2:
          from = pieces(1, own);
          to.resize(n * world);
          expected = pieces(world, [&](std::size_t rank) { return value(rank, 0); });
          pending.push_back(ranks.begin_all_gather(std::span<const double>{from}, std::span{to}));
          break;
        case 3:
          to = pieces(1, own);
          expected = pieces(1, [&](std::size_t) { return value(root, 0); });
          pending.push_back(ranks.begin_broadcast(std::span{to}, root));
          break;
        default:
          from = pieces(world, own);
          to.resize(n * world);
          expected = pieces(world, [&](std::size_t rank) { return value(rank, ranks.rank()); });
          pending.push_back(ranks.begin_all_to_all(std::span<const double>{from}, std::span{to}));
          break;
      }
    }
    std::vector<std::size_t> order(kOperations);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937{ranks.rank()});
    for (const std::size_t each : order) {
      while (each % 3 == 0 && !pending[each].done()) std::this_thread::yield();
      pending[each].wait();
      ASSERT_EQ(all[each].to, all[each].expected) << each;
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
    EXPECT_EQ(recent.find("under way"), std::string::npos) << recent;
    for (int i = 0; i < 1500; ++i) ranks.barrier();
    EXPECT_EQ(std::ranges::count(ranks.recent_operations(), '\n'), 1000);
  });
}

TEST_P(Conformance, AnErrorOfSeveralLinesIsTheSameOnAllRanks) {
  run([](Communicator& ranks) {
    const Error why{ErrorCode::kCancelled, "the loss is wrong\n  in step 7\n  in main()",
                    "Look at the data.\nBegin again."};
    if (ranks.rank() == ranks.size() - 1) ranks.abort(why);
    try {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds{1})) ranks.check();
    } catch (const Cancelled& told) {
      EXPECT_EQ(told.error().message(), why.message());
      EXPECT_EQ(told.error().remedy(), why.remedy());
    }
  });
}

TEST_P(Conformance, AnotherThreadSeesAFailureWhileTheRankWorks) {
  run([](Communicator& ranks) {
    EXPECT_FALSE(ranks.failure());
    std::optional<Error> seen;
    std::thread watcher{[&] {
      while (!seen) {
        seen = ranks.failure();
        std::this_thread::yield();
      }
    }};
    std::vector<float> data(1000);
    EXPECT_SAYS(message_of<Cancelled>([&] {
                  for (int i = 0; i < 20; ++i) ranks.all_reduce(std::span{data});
                  if (ranks.rank() == 0) ranks.abort("enough");
                  for (;;) ranks.begin_all_reduce(std::span{data}).join();
                }),
                "enough");
    watcher.join();
    EXPECT_SAYS(seen->message(), "enough");
  });
}

TEST_P(Conformance, WhatMakesNoSenseIsRefusedAtOnceAndEndsNothing) {
  run([](Communicator& ranks) {
    std::vector<float> data(3 * ranks.size() + 1);
    std::vector<float> room(3);
    message_of<InvalidArgument>([&] { ranks.reduce_scatter(std::span<const float>{data}, std::span{room}); });
    const auto bytes = std::as_writable_bytes(std::span{data}.first(3 * ranks.size()));
    const auto piece = std::as_writable_bytes(std::span{room});
    const auto scatter = [&](std::vector<Elsewhere> own) {
      return message_of<InvalidArgument>(
          [&] { ranks.begin_reduce_scatter(DType::kF32, bytes, own, piece, Reduction::kSum).wait(); });
    };
    EXPECT_SAYS(scatter({{8, piece.first(8)}}), "in a piece of 12 bytes, a part of 8 bytes at offset 8 lies outside");
    EXPECT_SAYS(scatter({{4, piece.first(4)}, {4, piece.first(4)}}), "without overlaps");
    EXPECT_SAYS(scatter({{~std::size_t{0}, piece.first(4)}}), "outside of the piece");
    EXPECT_SAYS(scatter({{0, piece.first(2)}}), "2 bytes are not a whole number of elements of f32");
    message_of<InvalidArgument>([&] { ranks.all_gather(std::span<const float>{room}, std::span{data}); });
    message_of<InvalidArgument>([&] { ranks.broadcast(std::span{room}, ranks.size()); });
    EXPECT_SAYS(message_of<InvalidArgument>([&] { ranks.receive(std::span{room}, ranks.rank()); }),
                "cannot exchange messages with");
    message_of<InvalidArgument>([&] { ranks.send(std::span<const float>{room}, ranks.size()); });
    if (ranks.size() > 1) {
      message_of<InvalidArgument>([&] { ranks.all_to_all(std::span<const float>{data}, std::span{data}); });
    }
    const std::span all{data.data(), 2 * ranks.size()};
    EXPECT_SAYS(message_of<InvalidArgument>([&] { ranks.all_to_all(std::span<const float>{all}, all); }),
                "`from` and `to` of all_to_all() overlap");
    std::vector<std::int32_t> whole(3);
    EXPECT_SAYS(message_of<InvalidArgument>([&] { ranks.all_reduce(std::span{whole}, Reduction::kMean); }),
                "Reduction::kMean is not defined for elements of type i32");
    message_of<InvalidArgument>(
        [&] { ranks.begin_all_reduce(DType::kF32, std::as_writable_bytes(std::span{room}).first(7)).wait(); });
    for (const std::size_t elements : {std::size_t{1} << 61, ~std::size_t{0}}) {
      EXPECT_SAYS(message_of<Exhausted>([&] { static_cast<void>(ranks.allocate<double>(elements)); }),
                  "cannot allocate");
    }
    ranks.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Conformance, kEachBackend, name_of);

}  // namespace
}  // namespace pharos::ml
