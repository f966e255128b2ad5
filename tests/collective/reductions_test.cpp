// The results of every backend's reductions, to the last bit.

#include <algorithm>
#include <cstring>
#include <random>
#include <type_traits>

#include "each_backend.hpp"

namespace pharos::ml {
namespace {

class Reductions : public EachBackend {};

template <class T>
void check_all_reduce(Communicator& ranks, std::span<T> data, Reduction reduction) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = given<T>(ranks.rank(), i);
  ranks.all_reduce(data, reduction);
  for (std::size_t i = 0; i < data.size(); ++i) {
    ASSERT_EQ(value_of(data[i]), reduced<T>(reduction, ranks.size(), i))
        << to_string(kDTypeOf<T>) << ' ' << to_string(reduction) << " of " << data.size() << " at " << i;
  }
}
/// Integers have no mean.
template <class T>
const std::vector<Reduction> kReductionsOf =
    std::is_integral_v<T> ? std::vector{Reduction::kSum, Reduction::kMax, Reduction::kMin}
                          : std::vector{Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin};

template <class T>
void check_all_reduces(Communicator& ranks) {
  for (const auto reduction : kReductionsOf<T>) {
    for (const std::size_t n : {0UL, 1UL, 2UL, 3UL, 17UL, 1000UL, 70'001UL}) {
      std::vector<T> own(n);
      check_all_reduce<T>(ranks, own, reduction);
    }
  }
}

template <class F>
void for_each_type(const F& f) {
  f.template operator()<std::uint8_t>();
  f.template operator()<std::int8_t>();
  f.template operator()<std::int32_t>();
  f.template operator()<std::int64_t>();
  f.template operator()<Half>();
  f.template operator()<BFloat16>();
  f.template operator()<float>();
  f.template operator()<double>();
}

TEST_P(Reductions, AllReducesOfAllTypesAndSizes) {
  run([](Communicator& ranks) {
    for_each_type([&]<class T>() { check_all_reduces<T>(ranks); });
    std::vector<float> large(1'000'003);
    check_all_reduce<float>(ranks, large, Reduction::kSum);
    std::vector<BFloat16> large_half(900'001);
    check_all_reduce<BFloat16>(ranks, large_half, Reduction::kMean);
  });
}

TEST_P(Reductions, AllReducesInMemoryOfTheCommunicator) {
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

template <class T>
void check_reduce_scatter(Communicator& ranks, std::span<T> from, Reduction reduction) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = given<T>(ranks.rank(), i);
  std::vector<T> piece(from.size() / ranks.size());
  ranks.reduce_scatter(std::span<const T>{from}, std::span{piece}, reduction);
  for (std::size_t i = 0; i < piece.size(); ++i) {
    ASSERT_EQ(value_of(piece[i]), reduced<T>(reduction, ranks.size(), ranks.rank() * piece.size() + i))
        << to_string(kDTypeOf<T>) << ' ' << to_string(reduction) << " of " << from.size() << " at " << i;
  }
}
template <class T>
void check_reduce_scatters(Communicator& ranks) {
  const auto shared = ranks.allocate<T>(20'011 * ranks.size());
  for (const auto reduction : kReductionsOf<T>) {
    for (const std::size_t n : {0UL, 1UL, 3UL, 17UL, 1000UL, 20'011UL}) {
      std::vector<T> own(n * ranks.size());
      check_reduce_scatter<T>(ranks, own, reduction);
      check_reduce_scatter<T>(ranks, shared.span().first(own.size()), reduction);
    }
  }
}

TEST_P(Reductions, ReduceScattersOfAllTypesAndSizes) {
  run([](Communicator& ranks) { for_each_type([&]<class T>() { check_reduce_scatters<T>(ranks); }); });
}

/// Half of this rank's own piece lies elsewhere, in two parts. The values in its place do not count.
template <class T>
void check_elsewhere(Communicator& ranks, std::span<T> from, Reduction reduction) {
  std::vector<T> piece(from.size() / ranks.size());
  const std::size_t quarter = piece.size() / 4;
  const std::size_t own = ranks.rank() * piece.size();
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = given<T>(ranks.rank(), i);
  std::vector<std::vector<T>> memory;
  std::vector<Elsewhere> parts;
  for (const std::size_t begin : {quarter, piece.size() - quarter}) {
    const std::span<T> part = from.subspan(own + begin, quarter);
    const auto& its = memory.emplace_back(part.begin(), part.end());
    parts.push_back({begin * sizeof(T), std::as_bytes(std::span{its})});
    std::ranges::fill(part, element_of<T>(99));
  }
  ranks
      .begin_reduce_scatter(kDTypeOf<T>, std::as_writable_bytes(from), parts, std::as_writable_bytes(std::span{piece}),
                            reduction)
      .wait();
  for (std::size_t i = 0; i < piece.size(); ++i) {
    ASSERT_EQ(value_of(piece[i]), reduced<T>(reduction, ranks.size(), own + i))
        << to_string(kDTypeOf<T>) << ' ' << to_string(reduction) << " of " << from.size() << " at " << i;
  }
}

TEST_P(Reductions, ReduceScattersWhatIsInPartElsewhere) {
  run([](Communicator& ranks) {
    for_each_type([&]<class T>() {
      const auto shared = ranks.allocate<T>(20'012 * ranks.size());
      for (const auto reduction : kReductionsOf<T>) {
        for (const std::size_t n : {4UL, 16UL, 20'012UL}) {
          std::vector<T> own(n * ranks.size());
          check_elsewhere<T>(ranks, own, reduction);
          check_elsewhere<T>(ranks, shared.span().first(own.size()), reduction);
        }
      }
    });
  });
}

/// The sum from left to right, in the type in which elements are summed.
template <class T>
T sum_of(const std::vector<T>& from) {
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
  auto sum = static_cast<Wide>(value_of(from[0]));
  for (std::size_t i = 1; i < from.size(); ++i) sum += static_cast<Wide>(value_of(from[i]));
  return element_of<T>(static_cast<double>(sum));
}
/// The sum of the sums of each machine's ranks.
template <class T>
T sum_by_machine(const std::vector<T>& from, std::uint32_t neighbours) {
  std::vector<T> sums;
  for (auto its = from.begin(); its != from.end(); its += neighbours)
    sums.push_back(sum_of<T>({its, its + neighbours}));
  return sum_of(sums);
}

/// Ordinary numbers, whose sum depends on the order.
template <class T>
void check_order(Communicator& ranks, std::uint32_t neighbours) {
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
  bool depends = false;
  const auto shared = ranks.allocate<T>(60'000);
  for (const std::size_t n : {120UL, 60'000UL}) {
    std::vector<std::vector<T>> all(ranks.size(), std::vector<T>(n));
    for (auto& of_rank : all) {
      for (T& each : of_rank) each = element_of<T>(normal(random));
    }
    std::vector<T> sums(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<T> from(ranks.size());
      for (std::size_t rank = 0; rank < from.size(); ++rank) from[rank] = all[rank][i];
      sums[i] = sum_by_machine(from, neighbours);
      std::reverse(from.begin(), from.end());
      depends = depends || sums[i] != sum_by_machine(from, neighbours);
    }
    std::vector<T> own = all[ranks.rank()];
    std::copy(own.begin(), own.end(), shared.data());
    ranks.all_reduce(std::span{own});
    ranks.all_reduce(shared.span().first(n));
    std::vector<T> piece(n / ranks.size());
    const auto given = std::span<const T>{all[ranks.rank()]}.first(piece.size() * ranks.size());
    ranks.reduce_scatter(given, std::span{piece});
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(value_of(own[i]), value_of(sums[i])) << i << " of " << n;
      ASSERT_EQ(value_of(shared[i]), value_of(sums[i])) << i << " of " << n;
    }
    std::vector<T> same(piece.size());
    std::ranges::copy(given, shared.data());
    const Elsewhere whole{0, std::as_bytes(given.subspan(ranks.rank() * piece.size(), piece.size()))};
    ranks
        .begin_reduce_scatter(kDTypeOf<T>, std::as_writable_bytes(shared.span().first(given.size())), {&whole, 1},
                              std::as_writable_bytes(std::span{same}))
        .wait();
    for (std::size_t i = 0; i < piece.size(); ++i) {
      ASSERT_EQ(value_of(piece[i]), value_of(sums[ranks.rank() * piece.size() + i])) << i << " of " << n;
      ASSERT_EQ(value_of(same[i]), value_of(piece[i])) << i << " of " << n;
    }
  }
  // The sum of two numbers does not depend on the order, and sums of a few 16-bit floats are exact in float.
  EXPECT_EQ(depends, sizeof(T) != 2 && (neighbours > 2 || ranks.size() > 2 * neighbours));
}

TEST_P(Reductions, SumsAreInTheOrderOfTheRanks) {
  run([](Communicator& ranks) {
    check_order<float>(ranks, neighbours());
    check_order<double>(ranks, neighbours());
  });
}

/// One rank gives a number whose neighbours are 2 away, and the other ranks give 1. Sums of two numbers at a time, each
/// rounded, would lose the ones.
template <class T>
void check_halves(Communicator& ranks, std::uint32_t neighbours, double large) {
  const auto shared = ranks.allocate<T>(50'000);
  for (const std::size_t n : {90UL, 50'000UL}) {
    const auto given_at = [&](std::uint32_t rank, std::size_t place) {
      return element_of<T>(place % ranks.size() == rank ? large : 1);
    };
    std::vector<T> own(n);
    for (std::size_t i = 0; i < n; ++i) own[i] = shared[i] = given_at(ranks.rank(), i);
    std::vector<T> piece(n / ranks.size());
    ranks.reduce_scatter(std::span<const T>{own}.first(piece.size() * ranks.size()), std::span{piece});
    ranks.all_reduce(std::span{own});
    ranks.all_reduce(shared.span().first(n));
    const std::size_t first = ranks.rank() * piece.size();
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<T> from(ranks.size());
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) from[rank] = given_at(rank, i);
      const double sum = value_of(sum_by_machine(from, neighbours));
      if (neighbours == ranks.size()) {
        ASSERT_EQ(sum, value_of(element_of<T>(large + ranks.size() - 1)));
      }
      ASSERT_EQ(value_of(own[i]), sum) << i << " of " << n;
      ASSERT_EQ(value_of(shared[i]), sum) << i << " of " << n;
      if (i >= first && i < first + piece.size()) {
        ASSERT_EQ(value_of(piece[i - first]), sum) << i << " of " << n;
      }
    }
  }
}

/// On several machines the sum of a machine is rounded once, and the sum of the machines once more, because 16-bit
/// floats go between the machines.
TEST_P(Reductions, HalvesAreSummedAsFloats) {
  run([](Communicator& ranks) {
    check_halves<BFloat16>(ranks, neighbours(), 256);
    check_halves<Half>(ranks, neighbours(), 2048);
    check_order<BFloat16>(ranks, neighbours());
    check_order<Half>(ranks, neighbours());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Reductions, kEachBackend, name_of);

}  // namespace
}  // namespace pharos::ml
