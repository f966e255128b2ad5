#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/images.hpp>

#include "file_bytes.hpp"
#include "image_changes.hpp"
#include "image_file.hpp"
#include "sample_memory.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr int kColors = 3;

// ---- Pixels as numbers of a sample, one plane of them for each colour

std::uint32_t color_of(std::uint32_t pixel, int color) {
  return pixel >> (8 * color) & 0xFF;
}

template <class T, class Number>
void write_planes(const Pixels& pixels, std::span<std::byte> to, const Number& number) {
  const Size size = pixels.size();
  auto* out = reinterpret_cast<T*>(to.data());
  for (int color = 0; color < kColors; ++color) {
    for (std::uint32_t y = 0; y < size.height; ++y, out += size.width) {
      const std::uint32_t* const row = pixels.numbers(y);
      for (std::uint32_t x = 0; x < size.width; ++x) out[x] = number(color_of(row[x], color), color);
    }
  }
}

/// Makes the field "image" of a sample of an encoded image. Any thread.
class ImageMaker {
 public:
  explicit ImageMaker(const ImageOptions& options) : changes_{options.changes}, normalize_{options.normalize} {
    if (!normalize_) return;
    for (std::size_t i = 0; i < kColors; ++i) {
      const float deviation = normalize_->deviation[i];
      if (!(deviation > 0)) {
        throw_error(Error{ErrorCode::kInvalidArgument,
                          "images cannot be normalized by a deviation of " + std::to_string(deviation)});
      }
      factor_[i] = 1 / (255 * deviation);
      shift_[i] = -normalize_->mean[i] / deviation;
    }
  }

  Field field() const {
    const Size size = changes_.size();
    return {"image", normalize_ ? DType::kF32 : DType::kU8, {kColors, size.height, size.width}};
  }
  void make(std::span<const std::byte> encoded, const std::string& name, std::uint64_t chance,
            std::span<std::byte> to) const {
    const auto file = ImageFile::open(encoded, name);
    const Pixels pixels = changes_.apply(*file, chance, name);
    if (!normalize_) {
      write_planes<std::uint8_t>(pixels, to, [](std::uint32_t value, int) { return static_cast<std::uint8_t>(value); });
      return;
    }
    write_planes<float>(pixels, to, [this](std::uint32_t value, int color) {
      const auto place = static_cast<std::size_t>(color);
      return static_cast<float>(static_cast<std::int32_t>(value)) * factor_[place] + shift_[place];
    });
  }

 private:
  const ImageChanges changes_;
  const std::optional<Normalize> normalize_;
  std::array<float, kColors> factor_{};
  std::array<float, kColors> shift_{};
};

class ImageFiles final : public Dataset {
 public:
  ImageFiles(std::vector<fs::path> files, const ImageOptions& options)
      : files_{std::move(files)}, maker_{options}, fields_{maker_.field()} {
    if (files_.empty()) throw_error(Error{ErrorCode::kInvalidArgument, "a dataset of no images was asked for"});
  }
  std::uint64_t size() const override { return files_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    const fs::path& path = files_[sample];
    maker_.make(bytes_of_file(path, Keep::kInMemory).span(), path.string(), chance, to[0]);
  }

 private:
  const std::vector<fs::path> files_;
  const ImageMaker maker_;
  const std::vector<Field> fields_;
};

class ImagesInField final : public Dataset {
 public:
  ImagesInField(DatasetPtr from, const std::string& field, const ImageOptions& options)
      : from_{std::move(from)}, maker_{options}, fields_{maker_.field()} {
    const auto found = std::ranges::find(from_->fields(), field, &Field::name);
    if (found == from_->fields().end()) {
      throw_error(Error{ErrorCode::kNotFound, "the dataset has no field \"" + field + '"'});
    }
    field_ = static_cast<std::size_t>(found - from_->fields().begin());
  }
  std::uint64_t size() const override { return from_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::uint64_t sample, std::uint64_t chance, std::span<const std::span<std::byte>> to) const override {
    const SampleMemory memory{*from_, sample};
    from_->read(sample, chance, memory.fields());
    maker_.make(memory.fields()[field_], "the image", chance, to[0]);
  }
  std::uint64_t ahead() const override { return from_->ahead(); }
  void expect(std::span<const std::uint64_t> samples) const override { from_->expect(samples); }

 private:
  const DatasetPtr from_;
  const ImageMaker maker_;
  const std::vector<Field> fields_;
  std::size_t field_ = 0;
};

// ---- Folders

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}
bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entries{folder, failed}; !failed && entries != fs::directory_iterator{};
       entries.increment(failed)) {
    std::error_code gone;  // what a link names
    if (entries->is_directory(gone) && !is_hidden(entries->path())) found.push_back(entries->path());
  }
  throw_if(failed, "reading the folder " + folder.string());
  std::ranges::sort(found);
  return found;
}
std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator entries{folder, kFollow, failed};
       !failed && entries != fs::recursive_directory_iterator{}; entries.increment(failed)) {
    std::error_code unknown;
    if (is_hidden(entries->path())) {
      entries.disable_recursion_pending();
    } else if (is_image(entries->path()) && (entries->is_regular_file(unknown) || unknown)) {
      // What is not known, such as a link to nothing, is found out and refused by the first read.
      found.push_back(entries->path());
    }
  }
  throw_if(failed, "reading the folder " + folder.string());
  std::ranges::sort(found);
  return found;
}

Array array_of_pixels(const Pixels& pixels) {
  const Size size = pixels.size();
  std::vector<std::uint8_t> values;
  values.reserve(std::size_t{size.width} * size.height * kColors);
  for (std::uint32_t y = 0; y < size.height; ++y) {
    for (std::uint32_t x = 0; x < size.width; ++x) {
      const std::uint8_t* const pixel = pixels.row(y) + x * Pixels::kBytes;
      values.insert(values.end(), pixel, pixel + kColors);
    }
  }
  return Array::of(std::move(values), {size.height, size.width, kColors});
}

}  // namespace

Array decode_image(std::span<const std::byte> file, std::string_view name) {
  const auto opened = ImageFile::open(file, std::string{name});
  return array_of_pixels(opened->read(box_of(opened->size())));
}
Array read_image(const fs::path& path) {
  return decode_image(bytes_of_file(path, Keep::kInMemory).span(), path.string());
}

DatasetPtr images_of(std::vector<fs::path> files, const ImageOptions& options) {
  return std::make_shared<const ImageFiles>(std::move(files), options);
}
DatasetPtr images_in(DatasetPtr from, const std::string& field, const ImageOptions& options) {
  return std::make_shared<const ImagesInField>(std::move(from), field, options);
}

ImageFolder image_folder(const fs::path& folder, const ImageOptions& options) {
  ImageFolder found;
  std::vector<std::int64_t> labels;
  for (const fs::path& of_class : folders_in(folder)) {
    std::vector<fs::path> files = images_below(of_class);
    if (files.empty()) {
      throw_error(Error{ErrorCode::kInvalidArgument, of_class.string() + " has no image, and is to be a class",
                        "Each folder of " + folder.string() + " is a class. Images end with .jpg, .jpeg or .png."});
    }
    labels.insert(labels.end(), files.size(), static_cast<std::int64_t>(found.classes.size()));
    found.classes.push_back(of_class.filename().string());
    std::ranges::move(files, std::back_inserter(found.files));
  }
  if (found.classes.empty()) {
    throw_error(Error{ErrorCode::kInvalidArgument, folder.string() + " has no folder",
                      "A dataset of images has a folder for each class."});
  }
  found.data = side_by_side({images_of(found.files, options), rows_of({{"label", Array::of(std::move(labels))}})});
  return found;
}

}  // namespace pharos::ml
