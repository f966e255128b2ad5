#pragma once

#include <cstdint>

#include "pixels.hpp"

namespace pharos::ml {

struct ResampleKernels;

/// A part of a scaled image.
struct Scaling {
  Size from{};   ///< the size of the image before
  Size to{};     ///< and after
  Box window{};  ///< the part of the scaled image that is wanted; inside and not empty

  /// The part of the image before that the window is made of.
  Box needed() const;
};

/// Makes the window of pixels that are the needed part of the image. Each new pixel is the weighted mean of those below
/// a triangle, which is two pixels wide where the image grows, and two new pixels wide where it shrinks. All kernels
/// make the same pixels; without them, the fastest ones of this machine do it.
Pixels resampled(const Pixels& needed, const Scaling& scaling);
Pixels resampled(const Pixels& needed, const Scaling& scaling, const ResampleKernels& kernels);

}  // namespace pharos::ml
