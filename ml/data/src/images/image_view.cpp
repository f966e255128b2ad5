#include "image_view.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "resample.hpp"

namespace pharos::ml {
namespace {

/// Returns the part of the box that is inside, which may be empty.
Box inside(const Box& box, Size size) {
  const std::int64_t x = std::clamp<std::int64_t>(box.x, 0, size.width);
  const std::int64_t y = std::clamp<std::int64_t>(box.y, 0, size.height);
  return {x, y, std::clamp<std::int64_t>(box.x + box.width, x, size.width) - x,
          std::clamp<std::int64_t>(box.y + box.height, y, size.height) - y};
}

Box moved(Box box, std::int64_t x, std::int64_t y) {
  return {box.x + x, box.y + y, box.width, box.height};
}

/// Puts the pixels at a place of a black image.
Pixels with_border(const Pixels& pixels, Size size, std::int64_t x, std::int64_t y) {
  Pixels image{size};
  for (std::uint32_t row = 0; row < size.height; ++row) std::fill_n(image.numbers(row), size.width, 0);
  for (std::uint32_t row = 0; row < pixels.size().height; ++row) {
    std::copy_n(pixels.numbers(row), pixels.size().width, image.numbers(static_cast<std::size_t>(y) + row) + x);
  }
  return image;
}

}  // namespace

void ImageView::crop(Box part) {
  const bool is_inside = part.is_inside(size());
  // Outside of an earlier part there is black, and not what that part has left of the image.
  if (!is_inside && window_ != box_of(scaled_)) pixels();
  if (mirrored_) part.x = window_.width - part.x - part.width;
  if (upside_down_) part.y = window_.height - part.y - part.height;
  if (is_inside && !is_scaled() && window_ == box_of(scaled_)) {
    part_ = moved(part, part_.x, part_.y);
    scaled_ = size_of(part);
    window_ = box_of(scaled_);
  } else {
    window_ = moved(part, window_.x, window_.y);
  }
}

void ImageView::resize(Size size) {
  if (size == this->size()) return;
  if (is_scaled() || window_ != box_of(scaled_)) pixels();
  scaled_ = size;
  window_ = box_of(size);
}

Pixels& ImageView::pixels() {
  const bool is_made = std::holds_alternative<Pixels>(source_) && !mirrored_ && !upside_down_ &&
                       part_ == box_of(from_) && window_ == part_ && !is_scaled();
  if (!is_made) {
    Pixels image = made();
    from_ = image.size();
    source_ = std::move(image);
    part_ = box_of(from_);
    scaled_ = from_;
    window_ = part_;
    mirrored_ = false;
    upside_down_ = false;
  }
  return std::get<Pixels>(source_);
}

Pixels ImageView::made() {
  const Box wanted = inside(window_, scaled_);
  Pixels image{Size{}};
  if (wanted.width != 0 && wanted.height != 0) {
    if (is_scaled()) {
      const Scaling scaling{size_of(part_), scaled_, wanted};
      image = resampled(read(moved(scaling.needed(), part_.x, part_.y)), scaling);
    } else {
      image = read(moved(wanted, part_.x, part_.y));
    }
  }
  if (wanted != window_) image = with_border(image, size(), wanted.x - window_.x, wanted.y - window_.y);
  const Size size = image.size();
  if (mirrored_) {
    for (std::uint32_t y = 0; y < size.height; ++y) std::reverse(image.numbers(y), image.numbers(y) + size.width);
  }
  if (upside_down_) {
    for (std::uint32_t y = 0; y < size.height / 2; ++y) {
      std::swap_ranges(image.numbers(y), image.numbers(y) + size.width, image.numbers(size.height - 1 - y));
    }
  }
  return image;
}

Pixels ImageView::read(Box part) {
  if (auto* const file = std::get_if<ImageFile*>(&source_)) return (*file)->read(part);
  return std::get<Pixels>(std::move(source_)).part(part);
}

}  // namespace pharos::ml
