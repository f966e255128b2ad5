#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/images.hpp>
#include <pharos/ml/loader.hpp>

#include "data_files.hpp"
#include "images/image_file.hpp"
#include "images/resample.hpp"
#include "images/resample_kernels.hpp"
#include "says.hpp"
#include "seed.hpp"

// files/images has images, and what Pillow makes of them; make_images.py made both.

namespace pharos::ml {
namespace {

using Values = std::vector<std::uint8_t>;

constexpr std::int64_t kWidth = 43;
constexpr std::int64_t kHeight = 37;
const char* const kImages[] = {"444.jpg",  "422.jpg",   "420.jpg",        "progressive.jpg", "restarts.jpg",
                               "gray.jpg", "cmyk.jpg",  "rgb.png",        "palette.png",     "gray.png",
                               "bits.png", "alpha.png", "interlaced.png", "16_bits.png"};

fs::path image(const std::string& name) {
  return file("images/" + name);
}
std::string bytes_in(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}
Values values_of(const Array& array) {
  const auto values = array.values<std::uint8_t>();
  return {values.begin(), values.end()};
}
/// What Pillow has made: (height, width, 3).
Array pillow(const std::string& name) {
  return read_npy(image(name + ".npy"));
}
int largest_difference(const Values& one, const Values& other) {
  EXPECT_EQ(one.size(), other.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
    largest = std::max(largest, std::abs(one[i] - other[i]));
  return largest;
}

void expect_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& each : parts) EXPECT_SAYS(text, each);
}

/// The image of a dataset that has this image alone, as Pillow has it: (height, width, 3).
Values changed_image(const std::string& name, std::vector<ImageChange> changes, std::uint64_t chance = 0) {
  const DatasetPtr data = images_of({image(name)}, {.changes = std::move(changes), .normalize = std::nullopt});
  const auto& shape = data->fields()[0].shape;
  Values planes(data->fields()[0].bytes());
  const std::span<std::byte> to = std::as_writable_bytes(std::span{planes});
  data->read(0, chance, std::span{&to, 1});
  Values pixels;
  const auto plane = static_cast<std::size_t>(shape[1] * shape[2]);
  for (std::size_t i = 0; i < plane; ++i)
    pixels.insert(pixels.end(), {planes[i], planes[plane + i], planes[2 * plane + i]});
  return pixels;
}

/// The part of an image of this width.
Values part_of_image(const Values& pixels, std::int64_t width, const Box& part) {
  Values its;
  for (std::int64_t y = part.y; y < part.y + part.height; ++y) {
    const auto begin = pixels.begin() + (y * width + part.x) * 3;
    its.insert(its.end(), begin, begin + part.width * 3);
  }
  return its;
}

// ---- Files

TEST(ReadImage, GivesThePixelsOfPillow) {
  for (const char* const name : kImages) {
    SCOPED_TRACE(name);
    const Array read = read_image(image(name));
    const Array expected = pillow(name);
    EXPECT_EQ(read.dtype(), DType::kU8);
    EXPECT_EQ(read.shape(), expected.shape());
    // Pillow computes CMYK with other roundings.
    EXPECT_LE(largest_difference(values_of(read), values_of(expected)), std::string{name} == "cmyk.jpg" ? 1 : 0);
  }
}

TEST(ReadImage, APartHasThePixelsOfTheWhole) {
  std::mt19937_64 random{seed_of_test()};
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  for (const char* const name : kImages) {
    const std::string bytes = bytes_in(image(name));
    const Values whole = values_of(decode_image(bytes_of(bytes), name));
    for (int i = 0; i < 300; ++i) {
      const std::int64_t x = below(kWidth);
      const std::int64_t y = below(kHeight);
      const Box part{x, y, 1 + below(kWidth - x), 1 + below(kHeight - y)};
      const Pixels pixels = ImageFile::open(bytes_of(bytes), name)->read(part);
      Values its;
      for (std::uint32_t row = 0; row < pixels.size().height; ++row) {
        for (std::uint32_t column = 0; column < pixels.size().width; ++column) {
          const std::uint8_t* const pixel = pixels.row(row) + column * Pixels::kBytes;
          its.insert(its.end(), pixel, pixel + 3);
        }
      }
      ASSERT_EQ(its, part_of_image(whole, kWidth, part))
          << name << ": " << part.width << " x " << part.height << " at " << part.x << ", " << part.y;
    }
  }
}

TEST(ReadImage, SaysWhichFileIsCutOff) {
  for (const char* const name : kImages) {
    const std::string bytes = bytes_in(image(name));
    for (const std::size_t kept : {bytes.size() / 4, bytes.size() / 2, bytes.size() - 20, bytes.size() - 1}) {
      SCOPED_TRACE(std::string{name} + " of " + std::to_string(kept) + " bytes");
      // A PNG has all pixels before the last bytes, which nobody needs.
      if (std::string{name}.ends_with("png") && kept + 20 >= bytes.size()) continue;
      const auto part = bytes_of(bytes).first(kept);
      const std::string said =
          refused(ErrorCode::kCorrupt, [&] { static_cast<void>(decode_image(part, "holiday.jpg")); });
      expect_says(said, {"holiday.jpg"});
      EXPECT_TRUE(contains(said, "cut off after " + std::to_string(kept)) || contains(said, "lib")) << said;
    }
  }
}

TEST(ReadImage, RefusesACutOffJpegWhicheverPartIsWanted) {
  const std::string bytes = bytes_in(image("420.jpg"));
  const std::string said = refused(ErrorCode::kCorrupt, [&] {
    static_cast<void>(ImageFile::open(bytes_of(bytes).first(bytes.size() - 2), "a.jpg"));
  });
  expect_says(said, {"a.jpg", "the JPEG is cut off after"});
}

TEST(ReadImage, RefusesWhatIsNoImage) {
  expect_says(refused(ErrorCode::kCorrupt, [] { static_cast<void>(decode_image({}, "a.png")); }), {"a.png", "empty"});
  const std::string text = "GIF89a";
  expect_says(refused(ErrorCode::kCorrupt, [&] { static_cast<void>(decode_image(bytes_of(text), "a.gif")); }),
              {"a.gif", "neither a JPEG nor a PNG"});
  expect_says(refused(ErrorCode::kNotFound, [] { static_cast<void>(read_image("no such.jpg")); }), {"no such.jpg"});
}

TEST(ReadImage, AllocatesNothingForPixelsThatAreOnlyClaimed) {
  std::string bytes = bytes_in(image("420.jpg"));
  const std::size_t frame = bytes.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  const auto refusal = [&](const std::string& height_and_width) {
    bytes.replace(frame + 5, 4, height_and_width);
    return refused(ErrorCode::kCorrupt, [&] { static_cast<void>(decode_image(bytes_of(bytes), "bomb.jpg")); });
  };
  expect_says(refusal("\xFF\xDC\xFF\xDC"), {"bomb.jpg", "65500 x 65500"});
  expect_says(refusal("\x10\x01\x10\x02"),
              {"bomb.jpg", "4098 x 4097 pixels in " + std::to_string(bytes.size()) + " bytes"});
}

TEST(ReadImage, DamagedBytesAreRefusedOrGiveAnImage) {
  std::mt19937_64 random{seed_of_test()};
  int refusals = 0;
  for (const char* const name : kImages) {
    const std::string whole = bytes_in(image(name));
    for (int i = 0; i < 200; ++i) {
      std::string bytes = whole;
      for (int changes = 0; changes < 4; ++changes) bytes[random() % bytes.size()] = static_cast<char>(random());
      try {
        const Array read = decode_image(bytes_of(bytes), name);
        EXPECT_EQ(read.shape().size(), 3U);
      } catch (const Exception& e) {
        ++refusals;
        EXPECT_EQ(e.code(), ErrorCode::kCorrupt) << e.what();
      }
    }
  }
  EXPECT_GT(refusals, 100);
}

// ---- Changes

TEST(ImageChanges, ResizeAsPillowDoes) {
  const auto differs = [](const std::string& expected, std::vector<ImageChange> changes) {
    return largest_difference(changed_image("420.jpg", std::move(changes)), values_of(pillow(expected)));
  };
  EXPECT_LE(differs("resized_16x20", {Resize{16, 20}}), 1);
  EXPECT_LE(differs("resized_90x100", {Resize{90, 100}}), 1);
  EXPECT_LE(differs("resized_80x10", {Resize{80, 10}}), 1);
  EXPECT_LE(differs("shorter_24_center_20", {ResizeShorter{24}, CenterCrop{20, 20}}), 1);
  EXPECT_EQ(differs("center_50x60", {CenterCrop{50, 60}}), 0);
}

TEST(ImageChanges, TheFastestKernelsMakeTheSamePixels) {
  std::mt19937_64 random{seed_of_test()};
  const auto below = [&](std::int64_t count) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  for (int i = 0; i < 300; ++i) {
    const Size from{static_cast<std::uint32_t>(below(60)), static_cast<std::uint32_t>(below(60))};
    const Size to{static_cast<std::uint32_t>(below(60)), static_cast<std::uint32_t>(below(60))};
    Scaling scaling{from, to, box_of(to)};
    scaling.window.x = below(to.width) - 1;
    scaling.window.width = below(to.width - scaling.window.x);
    scaling.window.y = below(to.height) - 1;
    scaling.window.height = below(to.height - scaling.window.y);
    const Box needed = scaling.needed();
    Pixels pixels{size_of(needed)};
    for (std::int64_t y = 0; y < needed.height; ++y) {
      std::generate_n(pixels.numbers(static_cast<std::size_t>(y)), needed.width,
                      [&] { return static_cast<std::uint32_t>(random()); });
    }
    const Pixels one = resampled(pixels, scaling, kPortableKernels);
    const Pixels other = resampled(pixels, scaling);
    for (std::int64_t y = 0; y < scaling.window.height; ++y) {
      const auto row = static_cast<std::size_t>(y);
      ASSERT_TRUE(std::equal(one.numbers(row), one.numbers(row) + scaling.window.width, other.numbers(row)))
          << from.width << " x " << from.height << " to " << to.width << " x " << to.height << ", row " << y;
    }
  }
}

TEST(ImageChanges, OneAfterTheOtherAreWhatTheyAreByThemselves) {
  // Each of these is done together with the decoding, and must give what it gives when pixels are made in between.
  const ImageChange make = ColorJitter{};  // changes nothing, and needs pixels
  const std::vector<std::vector<ImageChange>> chains{
      {CenterCrop{30, 25}, Resize{17, 19}},
      {Resize{50, 60}, CenterCrop{20, 30}, RandomHorizontalFlip{1}},
      {RandomHorizontalFlip{1}, CenterCrop{20, 24}, RandomVerticalFlip{1}, CenterCrop{9, 11}},
      {CenterCrop{30, 30}, CenterCrop{60, 60}, CenterCrop{40, 50}},
      {CenterCrop{60, 60}, CenterCrop{70, 80}},
      {RandomVerticalFlip{1}, RandomCrop{30, 30, 4}, RandomHorizontalFlip{1}, RandomCrop{40, 40}},
      {RandomResizedCrop{24, 24}, RandomHorizontalFlip{}, RandomCrop{24, 24, 3}},
      {ResizeShorter{20}, Resize{40, 40}, CenterCrop{13, 13}},
  };
  for (std::size_t i = 0; i < chains.size(); ++i) {
    std::vector<ImageChange> apart{make};
    for (const ImageChange& each : chains[i]) apart.insert(apart.end(), {each, make});
    for (std::uint64_t chance = 1; chance < 20; ++chance) {
      const Values together = changed_image("422.jpg", chains[i], chance);
      // A scaling that is done by itself rounds its result.
      ASSERT_LE(largest_difference(together, changed_image("422.jpg", apart, chance)), 1)
          << "chain " << i << ", chance " << chance;
    }
  }
}

TEST(ImageChanges, ACropTakesEveryPlaceAndNoOther) {
  const Values whole = values_of(pillow("rgb.png"));
  std::vector<bool> seen(6 * 4);
  for (std::uint64_t chance = 0; chance < 2000; ++chance) {
    const Values crop = changed_image("rgb.png", {RandomCrop{kHeight - 3, kWidth - 5}}, mixed(1, 2, chance));
    bool found = false;
    for (std::int64_t place = 0; place < 24 && !found; ++place) {
      found = crop == part_of_image(whole, kWidth, {place % 6, place / 6, kWidth - 5, kHeight - 3});
      if (found) seen[static_cast<std::size_t>(place)] = true;
    }
    ASSERT_TRUE(found) << "chance " << chance;
  }
  EXPECT_EQ(std::ranges::count(seen, true), 24);
}

TEST(ImageChanges, AResizedCropHasTheAreasAndRatiosThatItIsToldTo) {
  // Each pixel of this image says where it is: a crop that is scaled to two by two pixels says where it was.
  std::mt19937_64 random{seed_of_test()};
  double smallest = 1;
  double largest = 0;
  const Values whole = values_of(pillow("rgb.png"));
  for (int i = 0; i < 200; ++i) {
    // A part that is as large as the image is the image.
    const Values all =
        changed_image("rgb.png", {RandomResizedCrop{kHeight, kWidth, 1, 1, 43.0 / 37, 43.0 / 37}}, random());
    ASSERT_EQ(all, whole);
    const Values mean = changed_image("gray.png", {RandomResizedCrop{1, 1, 0.08, 0.1}}, random());
    smallest = std::min(smallest, mean[0] / 255.0);
    largest = std::max(largest, mean[0] / 255.0);
  }
  EXPECT_GT(largest - smallest, 0.3);  // parts of a tenth of the image differ
}

TEST(ImageChanges, FlipsComeAsOftenAsTheyAreToldTo) {
  const Values plain = changed_image("rgb.png", {CenterCrop{kHeight, kWidth}});
  int flips = 0;
  for (std::uint64_t chance = 0; chance < 1000; ++chance) {
    if (changed_image("rgb.png", {CenterCrop{kHeight, kWidth}, RandomHorizontalFlip{0.3}}, mixed(3, 4, chance)) !=
        plain)
      ++flips;
  }
  EXPECT_NEAR(flips, 300, 60);  // four standard deviations
}

TEST(ImageChanges, ColorsChangeAsTheirNamesSay) {
  const ImageChange all = CenterCrop{kHeight, kWidth};
  const Values plain = changed_image("rgb.png", {all});
  const auto gray = [](const Values& pixels, std::size_t i) {
    return 0.299 * pixels[i] + 0.587 * pixels[i + 1] + 0.114 * pixels[i + 2];
  };
  int differ = 0;
  for (std::uint64_t chance = 0; chance < 30; ++chance) {
    const auto jittered = [&](const ColorJitter& change) {
      Values pixels = changed_image("rgb.png", {all, change}, mixed(5, 6, chance));
      differ += pixels != plain ? 1 : 0;
      return pixels;
    };
    const Values bright = jittered({.brightness = 0.4});
    const Values contrast = jittered({.contrast = 0.4});
    const Values saturated = jittered({.saturation = 0.4});
    const Values turned = jittered({.hue = 0.3});
    double factor = 0;  // of all pixels together
    double mean = 0;
    double mean_before = 0;
    for (std::size_t i = 0; i < plain.size(); i += 3) {
      if (plain[i] == 128) factor = bright[i] / 128.0;
      mean += gray(contrast, i);
      mean_before += gray(plain, i);
      const auto [low, high] = std::minmax({plain[i], plain[i + 1], plain[i + 2]});
      const auto [low_now, high_now] = std::minmax({turned[i], turned[i + 1], turned[i + 2]});
      ASSERT_EQ(high_now, high);  // a hue that is turned keeps value and saturation
      ASSERT_NEAR(low_now, low, 1);
      if (std::ranges::max(std::span{saturated}.subspan(i, 3)) < 255 &&
          std::ranges::min(std::span{saturated}.subspan(i, 3)) > 0) {
        ASSERT_NEAR(gray(saturated, i), gray(plain, i), 2);
      }
    }
    ASSERT_NE(factor, 0);
    for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(bright[i], std::min(plain[i] * factor, 255.0), 2.5);
    const double pixels = static_cast<double>(plain.size()) / 3;
    EXPECT_NEAR(mean / pixels, mean_before / pixels, 4);
  }
  EXPECT_GT(differ, 100);
  const Values grey = changed_image("rgb.png", {all, RandomGrayscale{1}});
  for (std::size_t i = 0; i < grey.size(); i += 3) {
    ASSERT_EQ(grey[i], grey[i + 1]);
    ASSERT_NEAR(grey[i + 2], gray(plain, i), 1);
  }
}

TEST(ImageChanges, ErasingFillsOnePart) {
  const Values plain = changed_image("rgb.png", {CenterCrop{kHeight, kWidth}});
  for (std::uint64_t chance = 0; chance < 50; ++chance) {
    const Values erased =
        changed_image("rgb.png",
                      {CenterCrop{kHeight, kWidth},
                       RandomErasing{.probability = 1, .area_min = 0.1, .area_max = 0.2, .color = {1, 2, 3}}},
                      mixed(7, 8, chance));
    std::int64_t erased_pixels = 0;
    for (std::size_t i = 0; i < plain.size(); i += 3) {
      const bool is_erased = erased[i] == 1 && erased[i + 1] == 2 && erased[i + 2] == 3;
      erased_pixels += is_erased ? 1 : 0;
      if (!is_erased) {
        ASSERT_TRUE(std::equal(&plain[i], &plain[i] + 3, &erased[i]));
      }
    }
    EXPECT_NEAR(static_cast<double>(erased_pixels) / (kWidth * kHeight), 0.15, 0.07);
  }
}

TEST(ImageChanges, ThatMakeNoSenseAreRefused) {
  const auto refusal = [](std::vector<ImageChange> changes) {
    return refused(ErrorCode::kInvalidArgument, [&] { images_of({"a.jpg"}, {.changes = std::move(changes)}); });
  };
  expect_says(refusal({}), {"different sizes"});
  expect_says(refusal({ResizeShorter{24}, RandomHorizontalFlip{}}), {"different sizes"});
  expect_says(refusal({Resize{0, 3}}), {"3 x 0"});
  expect_says(refusal({CenterCrop{1U << 20, 1U << 20}}), {"1048576 x 1048576"});
  expect_says(refusal({Resize{2, 2}, RandomHorizontalFlip{1.5}}), {"probability of 1.5"});
  expect_says(refusal({RandomResizedCrop{2, 2, 0.5, 0.2}}), {"0.5", "0.2", "area"});
  expect_says(refusal({RandomResizedCrop{2, 2, 0.5, 1, 0}}), {"ratio"});
  expect_says(refusal({Resize{2, 2}, ColorJitter{.hue = 0.7}}), {"hue", "0.7"});
  expect_says(refusal({Resize{2, 2}, ColorJitter{.contrast = -1}}), {"-1"});
  expect_says(refused(ErrorCode::kInvalidArgument, [] { images_of({}, {.changes = {Resize{2, 2}}}); }), {"no images"});
  expect_says(
      refused(ErrorCode::kInvalidArgument,
              [] {
                images_of({"a.jpg"}, {.changes = {Resize{2, 2}}, .normalize = Normalize{.deviation = {1, 0, 1}}});
              }),
      {"deviation of 0"});
}

// ---- Datasets

TEST(Images, AreNormalizedByColor) {
  const DatasetPtr data = images_of({image("rgb.png")}, {.changes = {Resize{kHeight, kWidth}}, .normalize = kImageNet});
  EXPECT_EQ(data->fields()[0].shape, (std::vector<std::int64_t>{3, kHeight, kWidth}));
  std::vector<float> values(3 * kHeight * kWidth);
  const std::span<std::byte> to = std::as_writable_bytes(std::span{values});
  data->read(0, 0, std::span{&to, 1});
  const Values pixels = values_of(pillow("rgb.png"));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t color = i / (kHeight * kWidth);
    const float pixel = pixels[i % (kHeight * kWidth) * 3 + color];
    ASSERT_NEAR(values[i], (pixel / 255 - kImageNet.mean[color]) / kImageNet.deviation[color], 1e-5);
  }
}

TEST(Images, AreTheSameInEachRunAndDifferInEachEpoch) {
  const DatasetPtr data = images_of({image("rgb.png"), image("420.jpg"), image("gray.jpg")},
                                    {.changes = {RandomResizedCrop{16, 16}, RandomHorizontalFlip{}}});
  const auto epochs = [&](std::size_t threads) {
    std::vector<std::vector<float>> found;
    Loader loader{data, {.batch = 3, .order = Order::in_turn(3), .seed = 7, .threads = threads}};
    for (int epoch = 0; epoch < 2; ++epoch) {
      const auto batch = loader.next();
      const auto values = (*batch)["image"].values<float>();
      found.emplace_back(values.begin(), values.end());
      EXPECT_FALSE(loader.next());
    }
    return found;
  };
  const auto first = epochs(0);
  EXPECT_EQ(first, epochs(2));
  EXPECT_NE(first[0], first[1]);
}

class InImageFolder : public InFolder {
 protected:
  void put(const std::string& name, const std::string& from) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    fs::copy_file(image(from), path);
  }
  ImageFolder found() const { return image_folder(folder_.path(), {.changes = {Resize{8, 8}}}); }
};

TEST_F(InImageFolder, EachFolderIsAClass) {
  put("roses/b.JPG", "420.jpg");
  put("roses/a.jpeg", "444.jpg");
  put("asters/more/c.png", "rgb.png");
  put("asters/.thumbnails/d.png", "rgb.png");
  put(".cache/e.png", "rgb.png");
  write("readme.txt", "no class");
  const ImageFolder images = found();
  EXPECT_EQ(images.classes, (std::vector<std::string>{"asters", "roses"}));
  EXPECT_EQ(images.files, (std::vector<fs::path>{folder_.path() / "asters/more/c.png", folder_.path() / "roses/a.jpeg",
                                                 folder_.path() / "roses/b.JPG"}));
  Loader loader{images.data, {.batch = 3, .order = Order::in_turn(3)}};
  const auto batch = loader.next();
  EXPECT_EQ(numbers_of((*batch)["label"]), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ((*batch)["image"].shape(), (std::vector<std::int64_t>{3, 3, 8, 8}));
}

TEST_F(InImageFolder, WithoutImagesIsRefused) {
  expect_says(refused(ErrorCode::kInvalidArgument, [&] { found(); }), {folder_.path().string(), "no folder"});
  fs::create_directories(folder_.path() / "tulips");
  expect_says(refused(ErrorCode::kInvalidArgument, [&] { found(); }), {"tulips", "no image"});
  expect_says(refused(ErrorCode::kNotFound,
                      [] {
                        image_folder("/no/such/folder", {.changes = {Resize{8, 8}}});
                      }),
              {"/no/such/folder"});
}

TEST_F(InImageFolder, ATruncatedImageIsNamedByTheLoader) {
  put("roses/a.jpg", "420.jpg");
  put("roses/b.jpg", "420.jpg");
  write("roses/b.jpg", bytes_in(image("420.jpg")).substr(0, 700));
  const ImageFolder images = found();
  Loader loader{images.data, {.batch = 2, .order = Order::in_turn(2), .threads = 0}};
  const std::string said = refused(ErrorCode::kCorrupt, [&] { loader.next(); });
  expect_says(said, {"sample 1", "roses/b.jpg", "the JPEG is cut off after 700 bytes"});
}

TEST_F(InImageFolder, ALinkToNothingIsRefusedByTheFirstRead) {
  put("roses/a.jpg", "420.jpg");
  fs::create_symlink(folder_.path() / "gone.jpg", folder_.path() / "roses/b.jpg");
  const ImageFolder images = found();
  ASSERT_EQ(images.files.size(), 2U);
  Loader loader{images.data, {.batch = 2, .order = Order::in_turn(2), .threads = 0}};
  expect_says(refused(ErrorCode::kNotFound, [&] { loader.next(); }), {"roses/b.jpg"});
}

}  // namespace
}  // namespace pharos::ml
