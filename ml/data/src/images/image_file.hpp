#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pixels.hpp"

namespace pharos::ml {

/// The most pixels of an image.
inline constexpr std::uint64_t kPixelsMax = std::uint64_t{1} << 28;

/// An image in a file whose head has been read. One thread at a time. Errors are as images.hpp says, and leave an
/// object that can only be destroyed.
class ImageFile {
 public:
  /// Reads the head. The bytes must stay as long as the object.
  static std::unique_ptr<ImageFile> open(std::span<const std::byte> file, const std::string& name);

  ImageFile() = default;
  ImageFile(ImageFile&&) = delete;
  virtual ~ImageFile() = default;

  virtual Size size() const = 0;
  /// Decodes a part, which must be inside the image and not empty. Called once.
  virtual Pixels read(Box part) = 0;
};

std::unique_ptr<ImageFile> open_jpeg(std::span<const std::byte> file, const std::string& name);
std::unique_ptr<ImageFile> open_png(std::span<const std::byte> file, const std::string& name);

/// Throws kCorrupt if the size makes no sense, or if a file of so many bytes cannot have it: its pixels take `least`
/// bytes at least. So a small file makes nobody allocate much.
void check_size(Size size, std::uint64_t least, std::size_t bytes, const std::string& name);

}  // namespace pharos::ml
