#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "image_file.hpp"
#include "pixels.hpp"

namespace pharos::ml {

/// An image, and what is to be done to its shape. Crops, scalings and flips are only noted as long as one decoding and
/// one scaling can do them together, so that only the pixels that are left at the end are decoded and scaled. One
/// owner.
class ImageView {
 public:
  /// The file must stay until its pixels have been read.
  explicit ImageView(ImageFile& file)
      : source_{&file}, from_{file.size()}, part_{box_of(from_)}, scaled_{from_}, window_{part_} {}

  /// The image's size now.
  Size size() const { return size_of(window_); }

  /// Takes a part. What lies outside of the image is black.
  void crop(Box part);
  void resize(Size size);
  void flip_horizontally() { mirrored_ = !mirrored_; }
  void flip_vertically() { upside_down_ = !upside_down_; }

  /// Does what is noted, and returns the image for changes of its colours.
  Pixels& pixels();

 private:
  bool is_scaled() const { return scaled_ != size_of(part_); }
  Pixels made();
  Pixels read(Box part);

  std::variant<ImageFile*, Pixels> source_;
  Size from_;              ///< of the source
  Box part_;               ///< of the source; inside
  Size scaled_;            ///< what the part is scaled to
  Box window_;             ///< what is taken of that
  bool mirrored_ = false;  ///< then the window's columns are exchanged
  bool upside_down_ = false;
};

}  // namespace pharos::ml
