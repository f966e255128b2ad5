// The bytes that ranks send for an operation, counted where they go to the sockets.

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

/// Elements of the whole data. For each number of ranks and machines here its parts are whole cache lines.
constexpr std::size_t kElements = std::size_t{64} * 30 * 500;
constexpr std::uint64_t kBytes = kElements * sizeof(float);
/// Upper bound of the headers that a rank sends, for an operation and for each chunk of data.
constexpr std::uint64_t kHeadersMax = 4096;

struct Kind {
  const char* name;
  std::uint64_t times;  ///< how often each byte is sent from the ranks that have it to the others
  std::function<void(Communicator& ranks, std::span<float> all, std::span<float> piece)> call;
};

const std::vector<Kind> kKinds{
    {"all_reduce", 2, [](Communicator& ranks, std::span<float> all, std::span<float>) { ranks.all_reduce(all); }},
    {"reduce_scatter", 1,
     [](Communicator& ranks, std::span<float> all, std::span<float> piece) {
       ranks.reduce_scatter(std::span<const float>{all}, piece);
     }},
    {"all_gather", 1,
     [](Communicator& ranks, std::span<float> all, std::span<float> piece) {
       ranks.all_gather(std::span<const float>{piece}, all);
     }},
};

/// Returns the bytes that each rank sends for `kind`, by rank.
std::vector<std::uint64_t> bytes_by_rank(Communicator& ranks, const Kind& kind) {
  std::vector<float> all(kElements, 1);
  std::vector<float> piece(kElements / ranks.size(), 1);
  const std::uint64_t before = ranks.bytes_sent();
  kind.call(ranks, all, piece);
  const auto sent = static_cast<std::int64_t>(ranks.bytes_sent() - before);
  std::vector<std::int64_t> of_all(ranks.size());
  ranks.all_gather(std::span{&sent, 1}, std::span{of_all});
  return {of_all.begin(), of_all.end()};
}

TEST(BytesSent, AreThoseOfARingHoweverManyRanks) {
  for (const std::uint32_t n : {2U, 3U, 5U}) {
    run_streams(n, {}, [&](Communicator& ranks) {
      for (const Kind& kind : kKinds) {
        const std::uint64_t least = kind.times * kBytes * (n - 1) / n;
        for (const std::uint64_t sent : bytes_by_rank(ranks, kind)) {
          EXPECT_GE(sent, least) << kind.name << ' ' << n;
          EXPECT_LE(sent, least + kHeadersMax) << kind.name << ' ' << n;
        }
      }
    });
  }
}

TEST(BytesSent, GoToAMachineOnceHoweverManyRanksItHas) {
  struct Layout {
    std::uint32_t machines;
    std::uint32_t on_each;
  };
  for (const auto [machines, on_each] : {Layout{2, 2}, Layout{3, 2}, Layout{2, 3}}) {
    run_machines(machines, on_each, {}, [&, machines = machines, on_each = on_each](Communicator& ranks) {
      for (const Kind& kind : kKinds) {
        const std::uint64_t least = kind.times * kBytes * (machines - 1) / machines;
        const auto sent = bytes_by_rank(ranks, kind);
        for (auto its = sent.begin(); its != sent.end(); its += on_each) {
          const std::uint64_t of_machine = std::accumulate(its, its + on_each, std::uint64_t{0});
          EXPECT_GE(of_machine, least) << kind.name << ' ' << machines << " x " << on_each;
          EXPECT_LE(of_machine, least + on_each * kHeadersMax) << kind.name << ' ' << machines << " x " << on_each;
        }
      }
    });
  }
}

TEST(BytesSent, AreHalfWhereFloatsGoAsBfloat16) {
  const auto expect_half = [](Communicator& ranks, std::uint32_t n, std::uint32_t senders) {
    for (const Kind& kind : kKinds) {
      const bool reduces = kind.name != std::string{"all_gather"};
      const std::uint64_t least = kind.times * kBytes * (n - 1) / n / senders / (reduces ? 2 : 1);
      for (const std::uint64_t sent : bytes_by_rank(ranks, kind)) {
        EXPECT_GE(sent, least) << kind.name;
        EXPECT_LE(sent, least + kHeadersMax) << kind.name;
      }
    }
  };
  run_streams(3, {.bf16_over_tcp = true}, [&](Communicator& ranks) { expect_half(ranks, 3, 1); });
  run_machines(2, 2, {.bf16_over_tcp = true}, [&](Communicator& ranks) { expect_half(ranks, 2, 2); });
}

TEST(BytesSent, AreNoneInSharedMemory) {
  run_processes(2, {}, [](Communicator& ranks) {
    for (const Kind& kind : kKinds) {
      for (const std::uint64_t sent : bytes_by_rank(ranks, kind)) EXPECT_EQ(sent, 0U) << kind.name;
    }
  });
}

}  // namespace
}  // namespace pharos::ml
