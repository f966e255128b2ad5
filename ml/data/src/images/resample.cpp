#include "resample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "resample_kernels.hpp"

namespace pharos::ml {
namespace {

using Kernels = ResampleKernels;

std::size_t filled_up(std::size_t count, std::size_t to) {
  return (count + to - 1) / to * to;
}

/// The old pixels that become each new one, along one side of the image.
class Weights {
 public:
  /// Finds them for the new pixels from `begin` on.
  Weights(std::uint32_t from, std::uint32_t to, std::int64_t begin, std::int64_t count) {
    const double scale = static_cast<double>(from) / to;
    half_ = std::max(scale, 1.0);
    taps_ = filled_up(static_cast<std::size_t>(std::ceil(half_)) * 2 + 1, Kernels::kTapsOfGroup);
    weights_.resize(static_cast<std::size_t>(count) * taps_);
    for (std::int64_t i = 0; i < count; ++i) {
      const double center = (static_cast<double>(begin + i) + 0.5) * scale;
      const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(std::floor(center - half_ + 0.5)), 0);
      const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(std::floor(center + half_ + 0.5)), from);
      if (i == 0) first_ = first;
      firsts_.push_back(static_cast<std::uint32_t>(first - first_));
      counts_.push_back(static_cast<std::size_t>(last - first));
      last_ = last;
      fill(&weights_[static_cast<std::size_t>(i) * taps_], first, last, center);
    }
  }

  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }
  std::size_t size() const { return firsts_.size(); }
  std::size_t taps() const { return taps_; }
  /// The first old pixel of each new one, counted from first().
  const std::vector<std::uint32_t>& firsts() const { return firsts_; }
  std::size_t count_of(std::size_t i) const { return counts_[i]; }
  /// How many new pixels can be made by all their taps, without a look beyond last(). The others are the last ones.
  std::size_t whole() const {
    const auto pixels = static_cast<std::size_t>(last_ - first_);
    const auto is_whole = [&](std::uint32_t first) { return first + taps_ <= pixels; };
    return static_cast<std::size_t>(std::ranges::partition_point(firsts_, is_whole) - firsts_.begin());
  }
  const std::int16_t* of(std::size_t i) const { return &weights_[i * taps_]; }

 private:
  /// The weights of one new pixel have the sum of 1, exactly.
  void fill(std::int16_t* its, std::int64_t first, std::int64_t last, double center) const {
    const auto share = [&](std::int64_t pixel) {
      return std::max(0.0, 1 - std::abs((static_cast<double>(pixel) + 0.5 - center) / half_));
    };
    double sum = 0;
    for (std::int64_t pixel = first; pixel < last; ++pixel) sum += share(pixel);
    int left = 1 << Kernels::kWeightBits;
    for (std::int64_t pixel = first; pixel < last; ++pixel) {
      const auto weight = static_cast<std::int16_t>(std::lround(share(pixel) / sum * (1 << Kernels::kWeightBits)));
      its[pixel - first] = weight;
      left -= weight;
    }
    *std::max_element(its, its + (last - first)) += static_cast<std::int16_t>(left);
  }

  double half_;  ///< of the triangle's width
  std::size_t taps_;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::vector<std::int16_t> weights_;
  std::vector<std::uint32_t> firsts_;
  std::vector<std::size_t> counts_;
};

/// Makes one pixel of a row of new width.
void scale_pixel(const std::uint8_t* pixel, const std::int16_t* weights, std::size_t taps, std::int16_t* sums) {
  constexpr int kBits = Kernels::kWeightBits - Kernels::kSumBits;
  for (std::size_t color = 0; color < Pixels::kBytes; ++color) {
    int sum = 1 << (kBits - 1);
    for (std::size_t tap = 0; tap < taps; ++tap) sum += weights[tap] * pixel[tap * Pixels::kBytes + color];
    sums[color] = static_cast<std::int16_t>(sum >> kBits);
  }
}

void scale_row(const std::uint8_t* from, const std::uint32_t* firsts, const std::int16_t* weights, std::size_t groups,
               std::size_t pixels, std::int16_t* sums) {
  const std::size_t taps = groups * Kernels::kTapsOfGroup;
  for (std::size_t i = 0; i < pixels; ++i, weights += taps, sums += Pixels::kBytes) {
    scale_pixel(from + firsts[i] * Pixels::kBytes, weights, taps, sums);
  }
}

void sum_rows(const std::int16_t* const* rows, const std::int16_t* weights, std::size_t taps, std::size_t numbers,
              std::uint8_t* to) {
  constexpr int kBits = Kernels::kWeightBits + Kernels::kSumBits;
  for (std::size_t at = 0; at < numbers; ++at) {
    int sum = 1 << (kBits - 1);
    for (std::size_t tap = 0; tap < taps; ++tap) sum += weights[tap] * rows[tap][at];
    to[at] = static_cast<std::uint8_t>(sum >> kBits);
  }
}

const Kernels& fastest_here() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") != 0) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

}  // namespace

const ResampleKernels kPortableKernels{.scale_row = &scale_row, .sum_rows = &sum_rows};

Box Scaling::needed() const {
  const auto side = [](std::uint32_t before, std::uint32_t after, std::int64_t begin, std::int64_t count) {
    const Weights first{before, after, begin, 1};
    const Weights last{before, after, begin + count - 1, 1};
    return std::pair{first.first(), last.last() - first.first()};
  };
  const auto [x, width] = side(from.width, to.width, window.x, window.width);
  const auto [y, height] = side(from.height, to.height, window.y, window.height);
  return {x, y, width, height};
}

Pixels resampled(const Pixels& needed, const Scaling& scaling) {
  return resampled(needed, scaling, fastest_here());
}

Pixels resampled(const Pixels& needed, const Scaling& scaling, const ResampleKernels& kernels) {
  const Box window = scaling.window;
  const Weights columns{scaling.from.width, scaling.to.width, window.x, window.width};
  const Weights lines{scaling.from.height, scaling.to.height, window.y, window.height};
  Pixels pixels{size_of(window)};
  const std::size_t whole = columns.whole();
  const std::size_t numbers = columns.size() * Pixels::kBytes;
  const std::size_t stride = filled_up(numbers, Kernels::kSumsOfBlock);
  // Each old row is scaled once. As many of them are kept as a new row can need, in a ring.
  const std::size_t kept = lines.taps();
  const auto ring = std::make_unique<std::int16_t[]>(kept * stride);
  const auto slot = [&](std::size_t row) { return ring.get() + row % kept * stride; };
  std::vector<const std::int16_t*> rows(kept);
  std::size_t next = 0;
  for (std::size_t y = 0; y < lines.size(); ++y) {
    const std::size_t begin = lines.firsts()[y];
    const std::size_t count = lines.count_of(y);
    for (next = std::max(next, begin); next < begin + count; ++next) {
      const std::uint8_t* const row = needed.row(next);
      kernels.scale_row(row, columns.firsts().data(), columns.of(0), columns.taps() / Kernels::kTapsOfGroup, whole,
                        slot(next));
      for (std::size_t x = whole; x < columns.size(); ++x) {
        scale_pixel(row + columns.firsts()[x] * Pixels::kBytes, columns.of(x), columns.count_of(x),
                    slot(next) + x * Pixels::kBytes);
      }
    }
    for (std::size_t i = 0; i < count; ++i) rows[i] = slot(begin + i);
    const std::size_t taps = count + count % 2;
    if (taps != count) rows[count] = rows[0];  // its weight is 0
    kernels.sum_rows(rows.data(), lines.of(y), taps, numbers, pixels.row(y));
  }
  return pixels;
}

}  // namespace pharos::ml
