#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/dataset.hpp>

/// Images in JPEG and PNG files, and what is done to them before a model sees them. All pixels are red, green and blue
/// of 8 bits: grey images get three equal values, palettes and CMYK are converted, transparency is ignored, and so is
/// what a file says about its orientation and its colour profile. Decoded pixels are those of Pillow. Any thread may
/// call.
///
/// A file that is not an image, is cut off, or claims more than 2^28 pixels or more than its bytes can hold gives an
/// Exception with kCorrupt, which names the file; a file that cannot be read, the error of the system.
namespace pharos::ml {

/// Reads an image: u8 (height, width, 3).
PHAROS_API Array read_image(const std::filesystem::path& path);
/// Reads the bytes of a file that is in memory. Errors call it by `name`.
PHAROS_API Array decode_image(std::span<const std::byte> file, std::string_view name = "image");

/// Changes of an image, in the names of torchvision. Those that begin with Random draw from the chance that belongs to
/// the sample and the epoch, so they are the same in each run with the same seed. Sizes are in pixels.

/// Scales the image to this size. Like Pillow's bilinear filter, which torchvision uses, it takes the mean of all
/// pixels that become one.
struct Resize {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
};
/// Scales the image until its shorter side has this length.
struct ResizeShorter {
  std::uint32_t side = 0;
};
/// Takes the middle of the image. What lies outside of a smaller image is black.
struct CenterCrop {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
};
/// Takes a part of this size at a random place. The image has a black border of `padding` pixels, and is wider where it
/// would be smaller than the part.
struct RandomCrop {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t padding = 0;
};
/// Takes a part of random area and ratio (of width to height) at a random place, and scales it to this size. The area
/// is a share of the image's. If ten draws do not fit into the image, it takes the largest part in the middle that
/// does.
struct RandomResizedCrop {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  double area_min = 0.08;
  double area_max = 1;
  double ratio_min = 3.0 / 4;
  double ratio_max = 4.0 / 3;
};
/// Exchanges left and right.
struct RandomHorizontalFlip {
  double probability = 0.5;
};
/// Exchanges top and bottom.
struct RandomVerticalFlip {
  double probability = 0.5;
};
/// Changes brightness, contrast and saturation, each by a random factor between 1 - x and 1 + x, and turns the hue by
/// up to so much of a full circle. In this order.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;  ///< at most 0.5
};
/// Takes away the colour.
struct RandomGrayscale {
  double probability = 0.1;
};
/// Fills a random part with a colour. The area is a share of the image's, the ratio that of width to height.
struct RandomErasing {
  double probability = 0.5;
  double area_min = 0.02;
  double area_max = 0.33;
  double ratio_min = 0.3;
  double ratio_max = 3.3;
  std::array<std::uint8_t, 3> color{124, 116, 104};  ///< the mean of ImageNet
};
using ImageChange = std::variant<Resize, ResizeShorter, CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip,
                                 RandomVerticalFlip, ColorJitter, RandomGrayscale, RandomErasing>;

/// Makes floats of pixels: (pixel / 255 - mean) / deviation, for red, green and blue. By itself it gives 0 to 1.
struct Normalize {
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> deviation{1, 1, 1};
};
/// The mean and deviation of ImageNet, for which most published models were trained.
inline constexpr Normalize kImageNet{.mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.229F, 0.224F, 0.225F}};

struct ImageOptions {
  /// What happens to each image, in this order. It must give all images one size.
  std::vector<ImageChange> changes{};
  /// If not set, a sample has the pixels as u8.
  std::optional<Normalize> normalize = Normalize{};
};

/// A dataset of image files. Its field "image" has the shape (3, height, width), and is f32, or u8 without `normalize`.
/// A file is read and decoded each time its sample is read, by the thread that reads it; of a JPEG only the part that
/// the changes leave is decoded. Throws InvalidArgument if there is no file, if a change makes no sense, or if the
/// changes leave images of different sizes.
PHAROS_API DatasetPtr images_of(std::vector<std::filesystem::path> files, const ImageOptions& options);

/// A dataset of the images in a field of bytes, such as "jpg" of a tar archive (see samples_in_tar()). Its only field
/// is "image", as images_of(), and errors call the images by their samples. Throws as images_of(), and NotFound if
/// there is no such field.
PHAROS_API DatasetPtr images_in(DatasetPtr from, const std::string& field, const ImageOptions& options);

/// The images of a folder that has a folder for each class, as torchvision's ImageFolder.
struct ImageFolder {
  /// Has the fields "image", as images_of(), and "label", an i64: the place of the class in `classes`.
  DatasetPtr data{};
  std::vector<std::string> classes{};          ///< the names of the folders, sorted
  std::vector<std::filesystem::path> files{};  ///< of all samples, sorted within each class
};
/// Finds the files .jpg, .jpeg and .png, in folders below the class too, and reads none of them. Throws the error of
/// the system if a folder cannot be read, InvalidArgument if a class has no image, and as images_of().
///
///   const auto images = ml::image_folder("flowers/train", {.changes = {ml::RandomResizedCrop{224, 224},
///                                                                      ml::RandomHorizontalFlip{}},
///                                                          .normalize = ml::kImageNet});
///   ml::Loader loader{images.data, {.batch = 64, .threads = 4}};
PHAROS_API ImageFolder image_folder(const std::filesystem::path& folder, const ImageOptions& options);

}  // namespace pharos::ml
