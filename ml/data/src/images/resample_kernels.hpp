#pragma once

#include <cstddef>
#include <cstdint>

namespace pharos::ml {

/// The loops of resampled(), in whole numbers, so that all machines make the same pixels. Weights have 14 bits behind
/// the point, and sums of a row 7.
struct ResampleKernels {
  static constexpr int kWeightBits = 14;
  static constexpr int kSumBits = 7;
  static constexpr std::size_t kTapsOfGroup = 4;   // the weights of a new pixel are filled up with zeros to such groups
  static constexpr std::size_t kSumsOfBlock = 16;  // and the sums of a row to such blocks

  /// Makes `pixels` of a row of new width: new pixel i is the weighted sum of the pixels from number firsts[i] on.
  void (*scale_row)(const std::uint8_t* from, const std::uint32_t* firsts, const std::int16_t* weights,
                    std::size_t groups, std::size_t pixels, std::int16_t* sums);
  /// Makes a new row, the weighted sum of `taps` rows of sums; `taps` is even. Reads and writes a whole block at the
  /// end.
  void (*sum_rows)(const std::int16_t* const* rows, const std::int16_t* weights, std::size_t taps, std::size_t numbers,
                   std::uint8_t* to);
};

extern const ResampleKernels kPortableKernels;
#ifdef __x86_64__
extern const ResampleKernels kAvx2Kernels;
#endif

}  // namespace pharos::ml
