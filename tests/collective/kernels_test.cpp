#include "reduce/kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace pharos::ml {
namespace {

TEST(HalfPrecision, GoesToFloatAndBackAsItWas) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const BFloat16 brain{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(half))) {
      EXPECT_TRUE(std::isnan(to_float(to_half(to_float(half)))));
    } else {
      EXPECT_EQ(to_half(to_float(half)), half) << bits;
    }
    if (std::isnan(to_float(brain))) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(to_float(brain)))));
    } else {
      EXPECT_EQ(to_bfloat16(to_float(brain)), brain) << bits;
    }
  }
  EXPECT_EQ(to_float(Half{0x3c00}), 1.0F);
  EXPECT_EQ(to_float(Half{0x0001}), std::ldexp(1.0F, -24));
  EXPECT_EQ(to_float(Half{0x7bff}), 65504.0F);
}

// A number between two neighbours is rounded to the nearer one, and in the middle to the even one.
template <class T, class Make>
void check_rounding(Make make) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const T low{static_cast<std::uint16_t>(bits)};
    const T high{static_cast<std::uint16_t>(bits + 1)};
    const double middle = (static_cast<double>(to_float(low)) + static_cast<double>(to_float(high))) / 2;
    const auto half_way = static_cast<float>(middle);
    EXPECT_EQ(make(std::nextafterf(half_way, 0)), low) << bits;
    EXPECT_EQ(make(half_way), bits % 2 == 0 ? low : high) << bits;
    EXPECT_EQ(make(std::nextafterf(half_way, std::numeric_limits<float>::infinity())), high) << bits;
  }
}
TEST(HalfPrecision, RoundsToTheNearest) {
  check_rounding<Half>([](float from) { return to_half(from); });
  check_rounding<BFloat16>([](float from) { return to_bfloat16(from); });
  EXPECT_EQ(to_half(65520.0F), Half{0x7c00});
  EXPECT_EQ(to_half(-1e10F), Half{0xfc00});
  EXPECT_EQ(to_half(1e-10F), Half{0});
}

template <class T>
void check_same_bits(DType dtype) {
  std::mt19937_64 random{7};
  for (const std::size_t ranks : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U}) {
    for (const std::size_t n : {1U, 7U, 1023U, 1025U, 5000U}) {
      std::vector<std::vector<std::byte>> data(ranks, std::vector<std::byte>(n * sizeof(T)));
      for (auto& each : data) {
        for (std::byte& byte : each) byte = static_cast<std::byte>(random());
      }
      for (const auto reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin}) {
        auto plain = data;
        auto fast = data;
        const auto run = [&](auto& where, auto* kernel) {
          std::vector<std::byte*> to;
          for (auto& each : where) to.push_back(each.data());
          const std::vector<const std::byte*> from(to.begin(), to.end());
          kernel(dtype, reduction, from, to, n);
        };
        run(plain, &reduce_plain);
        run(fast, &reduce);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          // NaNs need not have the same bits.
          for (std::size_t i = 0; i < n; ++i) {
            T a{};
            T b{};
            std::memcpy(&a, plain[rank].data() + i * sizeof(T), sizeof(T));
            std::memcpy(&b, fast[rank].data() + i * sizeof(T), sizeof(T));
            if constexpr (std::is_floating_point_v<T>) {
              if (std::isnan(a) && std::isnan(b)) continue;
            } else if constexpr (std::is_class_v<T>) {
              if (std::isnan(to_float(a)) && std::isnan(to_float(b))) continue;
            }
            const std::byte* const at = plain[rank].data() + i * sizeof(T);
            ASSERT_EQ(std::memcmp(at, fast[rank].data() + i * sizeof(T), sizeof(T)), 0)
                << to_string(dtype) << ' ' << to_string(reduction) << ' ' << i;
          }
          ASSERT_EQ(std::memcmp(plain[rank].data(), plain[0].data(), n * sizeof(T)), 0);
        }
      }
    }
  }
}

TEST(Kernels, GiveTheSameBitsOnEveryMachine) {
  check_same_bits<std::uint8_t>(DType::kU8);
  check_same_bits<std::int8_t>(DType::kI8);
  check_same_bits<std::int32_t>(DType::kI32);
  check_same_bits<std::int64_t>(DType::kI64);
  check_same_bits<Half>(DType::kF16);
  check_same_bits<BFloat16>(DType::kBF16);
  check_same_bits<float>(DType::kF32);
  check_same_bits<double>(DType::kF64);
}

TEST(Kernels, HalfPrecisionIsRoundedOnce) {
  // 256 + 1 + 1 is 258 if it is summed as float. Rounded after each step it would stay 256.
  std::vector<BFloat16> data{to_bfloat16(256), to_bfloat16(1), to_bfloat16(1)};
  std::vector<const std::byte*> from;
  for (BFloat16& each : data) from.push_back(reinterpret_cast<std::byte*>(&each));
  BFloat16 sum;
  auto* const to = reinterpret_cast<std::byte*>(&sum);
  reduce(DType::kBF16, Reduction::kSum, from, {&to, 1}, 1);
  EXPECT_EQ(to_float(sum), 258.0F);
}

TEST(Kernels, WhatIsNoNumberIsSeenInEveryReduction) {
  for (const auto reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin}) {
    for (int where = 0; where < 3; ++where) {
      float data[3] = {1, 2, 3};
      data[where] = std::numeric_limits<float>::quiet_NaN();
      const std::byte* from[3];
      for (int i = 0; i < 3; ++i) from[i] = reinterpret_cast<const std::byte*>(&data[i]);
      float result = 0;
      auto* const to = reinterpret_cast<std::byte*>(&result);
      reduce(DType::kF32, reduction, from, {&to, 1}, 1);
      EXPECT_TRUE(std::isnan(result)) << to_string(reduction) << ' ' << where;
    }
  }
}

// The result is the same to the bit in place, in one of the inputs and elsewhere, with either code.
TEST(Kernels, ToOnePlaceIsAsToAll) {
  std::mt19937 random{11};
  std::normal_distribution<float> normal;
  constexpr std::size_t kElements = 1027;
  for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
    std::vector<std::vector<float>> data(ranks, std::vector<float>(kElements));
    std::vector<const std::byte*> from;
    for (auto& each : data) {
      for (float& value : each) value = normal(random);
      from.push_back(reinterpret_cast<const std::byte*>(each.data()));
    }
    std::vector<float> expected(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      for (const auto& each : data) expected[i] += each[i];
      expected[i] /= static_cast<float>(ranks);
    }
    for (const auto kernel : {&reduce, &reduce_plain}) {
      std::vector<float> elsewhere(kElements);
      std::byte* const to = reinterpret_cast<std::byte*>(elsewhere.data());
      kernel(DType::kF32, Reduction::kMean, from, {&to, 1}, kElements);
      EXPECT_EQ(elsewhere, expected) << ranks;
    }
    std::byte* const last = reinterpret_cast<std::byte*>(data.back().data());
    reduce(DType::kF32, Reduction::kMean, from, {&last, 1}, kElements);
    EXPECT_EQ(data.back(), expected) << ranks;
  }
}

TEST(Kernels, SpreadCopiesToEachPlaceAndNoFurther) {
  std::mt19937 random{13};
  for (const auto kernel : {&spread, &spread_plain}) {
    for (std::size_t places = 0; places <= 9; ++places) {
      for (const std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 4099UL}) {
        std::vector<std::byte> from(bytes);
        for (std::byte& each : from) each = static_cast<std::byte>(random());
        std::vector<std::vector<std::byte>> all(places, std::vector<std::byte>(bytes + 1, std::byte{77}));
        std::vector<std::byte*> to;
        for (auto& each : all) to.push_back(each.data());
        kernel(from.data(), to, bytes);
        for (const auto& each : all) {
          EXPECT_TRUE(std::equal(from.begin(), from.end(), each.begin())) << places << " places, " << bytes;
          EXPECT_EQ(each.back(), std::byte{77}) << places << " places, " << bytes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pharos::ml
