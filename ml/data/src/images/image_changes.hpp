#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/ml/images.hpp>

#include "image_file.hpp"
#include "pixels.hpp"

namespace pharos::ml {

/// Changes that give all images one size. Any thread.
class ImageChanges {
 public:
  /// Throws InvalidArgument as images_of().
  explicit ImageChanges(std::vector<ImageChange> changes);

  Size size() const { return size_; }
  /// Decodes the file, and changes what is decoded. Throws what decoding throws, and InvalidArgument, which names the
  /// file, if a change would make it too large.
  Pixels apply(ImageFile& file, std::uint64_t chance, const std::string& name) const;

 private:
  std::vector<ImageChange> changes_;
  Size size_;
};

}  // namespace pharos::ml
