#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace pharos::ml {

struct Size {
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  bool operator==(const Size&) const = default;
};

/// A part of an image. It may reach beyond the image on all sides.
struct Box {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;

  bool operator==(const Box&) const = default;
  bool is_inside(Size size) const { return x >= 0 && y >= 0 && x + width <= size.width && y + height <= size.height; }
};
inline Box box_of(Size size) {
  return {0, 0, size.width, size.height};
}
inline Size size_of(const Box& box) {
  return {static_cast<std::uint32_t>(box.width), static_cast<std::uint32_t>(box.height)};
}

/// Pixels of four bytes: red, green, blue, and one that nobody reads. Rows may have more pixels behind them. One owner.
class Pixels {
 public:
  static constexpr std::size_t kBytes = 4;  // of a pixel

  /// The pixels have any values.
  explicit Pixels(Size size) : Pixels{size, box_of(size)} {}
  /// A part of an image of this size, whose memory it keeps. The part must be inside.
  Pixels(Size whole, Box part)
      : width_{whole.width},
        memory_{new std::uint32_t[std::size_t{whole.width} * whole.height + kSlack]},
        size_{size_of(part)},
        begin_{memory_.get() + static_cast<std::size_t>(part.y) * width_ + static_cast<std::size_t>(part.x)} {}

  Size size() const { return size_; }
  std::uint8_t* row(std::size_t y) { return reinterpret_cast<std::uint8_t*>(begin_ + y * width_); }
  const std::uint8_t* row(std::size_t y) const { return reinterpret_cast<const std::uint8_t*>(begin_ + y * width_); }
  /// The same row with a number for each pixel.
  std::uint32_t* numbers(std::size_t y) { return begin_ + y * width_; }
  const std::uint32_t* numbers(std::size_t y) const { return begin_ + y * width_; }
  /// A row of the image that these pixels are a part of.
  std::uint8_t* whole_row(std::size_t y) { return reinterpret_cast<std::uint8_t*>(memory_.get() + y * width_); }

  /// Returns the part, in the same memory. It must be inside.
  Pixels part(Box part) && {
    size_ = size_of(part);
    begin_ += static_cast<std::size_t>(part.y) * width_ + static_cast<std::size_t>(part.x);
    return std::move(*this);
  }

 private:
  static constexpr std::size_t kSlack = 4;  // pixels behind the last one, for loops that take several at a time

  std::size_t width_;  ///< of the whole image
  std::unique_ptr<std::uint32_t[]> memory_;
  Size size_;
  std::uint32_t* begin_;
};

}  // namespace pharos::ml
