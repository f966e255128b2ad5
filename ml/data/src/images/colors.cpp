#include "colors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace pharos::ml {
namespace {

std::uint8_t byte_of(float value) {
  // The value is not negative; lround() would be a call for each value of each pixel.
  return static_cast<std::uint8_t>(std::clamp(value, 0.F, 255.F) + 0.5F);  // NOLINT(bugprone-incorrect-roundings)
}
/// How bright a pixel is: ITU-R BT.601, in the whole numbers of Pillow.
std::uint8_t gray_of(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

template <class Change>
void change_each(Pixels& pixels, const Change& change) {
  for (std::size_t y = 0; y < pixels.size().height; ++y) {
    std::uint8_t* pixel = pixels.row(y);
    for (std::uint32_t x = 0; x < pixels.size().width; ++x, pixel += Pixels::kBytes) change(pixel);
  }
}

/// Moves all colours away from `from`, or towards it, by this factor.
void stretch(Pixels& pixels, float from, float factor) {
  std::array<std::uint8_t, 256> table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = byte_of(from + (static_cast<float>(i) - from) * factor);
  change_each(pixels, [&table](std::uint8_t* pixel) {
    for (int color = 0; color < 3; ++color) pixel[color] = table[pixel[color]];
  });
}

float mean_gray(Pixels& pixels) {
  std::uint64_t sum = 0;
  change_each(pixels, [&sum](const std::uint8_t* pixel) { sum += gray_of(pixel); });
  return std::round(static_cast<float>(sum) /
                    static_cast<float>(std::uint64_t{pixels.size().width} * pixels.size().height));
}

void saturate(Pixels& pixels, float factor) {
  change_each(pixels, [factor](std::uint8_t* pixel) {
    const float gray = gray_of(pixel);
    for (int color = 0; color < 3; ++color)
      pixel[color] = byte_of(gray + (static_cast<float>(pixel[color]) - gray) * factor);
  });
}

/// Turns the hue by this share of the circle, and keeps saturation and value (Smith, 1978).
void turn_hue(Pixels& pixels, float by) {
  change_each(pixels, [by](std::uint8_t* pixel) {
    const float red = pixel[0];
    const float green = pixel[1];
    const float blue = pixel[2];
    const float value = std::max({red, green, blue});
    const float range = value - std::min({red, green, blue});
    if (range == 0) return;
    float sixths = 4 + (red - green) / range;
    if (value == red) {
      sixths = (green - blue) / range;
    } else if (value == green) {
      sixths = 2 + (blue - red) / range;
    }
    sixths += 6 * by + 12;  // never negative
    const auto color = [&](float shift) {
      const float place = std::fmod(sixths + shift, 6.F);
      return byte_of(value - range * std::clamp(std::min(place, 4 - place), 0.F, 1.F));
    };
    pixel[0] = color(5);
    pixel[1] = color(3);
    pixel[2] = color(1);
  });
}

}  // namespace

void change_colors(Pixels& pixels, const ColorJitter& change, Chance& chance) {
  const auto factor = [&chance](double most) {
    return static_cast<float>(chance.between(std::max(0.0, 1 - most), 1 + most));
  };
  if (change.brightness > 0) stretch(pixels, 0, factor(change.brightness));
  if (change.contrast > 0) stretch(pixels, mean_gray(pixels), factor(change.contrast));
  if (change.saturation > 0) saturate(pixels, factor(change.saturation));
  if (change.hue > 0) turn_hue(pixels, static_cast<float>(chance.between(-change.hue, change.hue)));
}

void make_gray(Pixels& pixels) {
  change_each(pixels, [](std::uint8_t* pixel) { std::fill_n(pixel, 3, gray_of(pixel)); });
}

void fill(Pixels& pixels, Box part, std::array<std::uint8_t, 3> color) {
  for (std::int64_t y = part.y; y < part.y + part.height; ++y) {
    std::uint8_t* pixel = pixels.row(static_cast<std::size_t>(y)) + static_cast<std::size_t>(part.x) * Pixels::kBytes;
    for (std::int64_t x = 0; x < part.width; ++x, pixel += Pixels::kBytes) std::ranges::copy(color, pixel);
  }
}

}  // namespace pharos::ml
