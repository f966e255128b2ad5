// Compiled for AVX2, so nothing here may be called by a machine without it.

#ifdef __x86_64__

#include <immintrin.h>

#include "resample_kernels.hpp"

namespace pharos::ml {
namespace {

void scale_row_avx2(const std::uint8_t* from, const std::uint32_t* firsts, const std::int16_t* weights,
                    std::size_t groups, std::size_t pixels, std::int16_t* sums) {
  constexpr char kNo = -128;  // makes a zero
  // The lower half gets, of four pixels, each colour of the first and of the second one side by side as numbers of 16
  // bits, and the upper half those of the third and of the fourth one.
  const __m256i pairs = _mm256_setr_epi8(0, kNo, 4, kNo, 1, kNo, 5, kNo, 2, kNo, 6, kNo, 3, kNo, 7, kNo, 8, kNo, 12,
                                         kNo, 9, kNo, 13, kNo, 10, kNo, 14, kNo, 11, kNo, 15, kNo);
  const __m256i halves = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m128i half_a_step = _mm_set1_epi32(1 << (ResampleKernels::kWeightBits - ResampleKernels::kSumBits - 1));
  for (std::size_t i = 0; i < pixels; ++i, sums += 4) {
    const std::uint8_t* pixel = from + std::size_t{firsts[i]} * 4;
    __m256i sum = _mm256_setzero_si256();
    for (std::size_t group = 0; group < groups; ++group, pixel += 16, weights += 4) {
      const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixel));
      const __m128i their = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights));
      sum =
          _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(four), pairs),
                                                  _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(their), halves)));
    }
    const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    const __m128i rounded =
        _mm_srai_epi32(_mm_add_epi32(both, half_a_step), ResampleKernels::kWeightBits - ResampleKernels::kSumBits);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums), _mm_packs_epi32(rounded, rounded));
  }
}

void sum_rows_avx2(const std::int16_t* const* rows, const std::int16_t* weights, std::size_t taps, std::size_t numbers,
                   std::uint8_t* to) {
  constexpr int kBits = ResampleKernels::kWeightBits + ResampleKernels::kSumBits;
  for (std::size_t at = 0; at < numbers; at += ResampleKernels::kSumsOfBlock) {
    __m256i low = _mm256_set1_epi32(1 << (kBits - 1));
    __m256i high = low;
    for (std::size_t tap = 0; tap < taps; tap += 2) {
      const __m256i one = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap] + at));
      const __m256i other = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap + 1] + at));
      const __m256i both = _mm256_set1_epi32(static_cast<std::uint16_t>(weights[tap]) | weights[tap + 1] << 16);
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(one, other), both));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(one, other), both));
    }
    const __m256i words = _mm256_packs_epi32(_mm256_srai_epi32(low, kBits), _mm256_srai_epi32(high, kBits));
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), _mm256_castsi256_si128(bytes));
  }
}

}  // namespace

const ResampleKernels kAvx2Kernels{.scale_row = &scale_row_avx2, .sum_rows = &sum_rows_avx2};

}  // namespace pharos::ml

#endif
