#pragma once

#include <array>
#include <cstdint>

#include <pharos/ml/images.hpp>

#include "chance.hpp"
#include "pixels.hpp"

/// Changes of the colours of pixels. They draw from `chance`.
namespace pharos::ml {

void change_colors(Pixels& pixels, const ColorJitter& change, Chance& chance);
void make_gray(Pixels& pixels);
/// `part` must be inside.
void fill(Pixels& pixels, Box part, std::array<std::uint8_t, 3> color);

}  // namespace pharos::ml
