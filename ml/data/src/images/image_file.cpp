#include "image_file.hpp"

#include <algorithm>
#include <array>

#include "file_bytes.hpp"

namespace pharos::ml {
namespace {

constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <std::size_t N>
bool begins_with(std::span<const std::byte> file, const std::array<std::uint8_t, N>& magic) {
  return file.size() >= N && std::ranges::equal(std::as_bytes(std::span{magic}), file.first(N));
}

}  // namespace

std::unique_ptr<ImageFile> ImageFile::open(std::span<const std::byte> file, const std::string& name) {
  if (begins_with(file, kJpeg)) return open_jpeg(file, name);
  if (begins_with(file, kPng)) return open_png(file, name);
  throw_corrupt(name, file.empty() ? "the file is empty" : "this is neither a JPEG nor a PNG");
}

void check_size(Size size, std::uint64_t least, std::size_t bytes, const std::string& name) {
  const std::uint64_t pixels = std::uint64_t{size.width} * size.height;
  if (pixels != 0 && pixels <= kPixelsMax && least <= bytes) return;
  throw_corrupt(name, "it claims to have " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                          " pixels in " + std::to_string(bytes) + " bytes");
}

}  // namespace pharos::ml
