#include "image_changes.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "chance.hpp"
#include "colors.hpp"
#include "image_view.hpp"

namespace pharos::ml {
namespace {

constexpr int kDraws = 10;  // until a random part fits

[[noreturn]] void refuse_change(std::string why) {
  throw_error(Error{ErrorCode::kInvalidArgument, std::move(why)});
}

std::uint32_t scaled(std::uint32_t length, std::uint32_t from, std::uint32_t to) {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::uint64_t{length} * to / from, 1));
}
/// A side may become 0 or too large; whoever asks must check.
Size with_shorter_side(Size size, std::uint32_t side) {
  return size.width <= size.height ? Size{side, scaled(size.height, size.width, side)}
                                   : Size{scaled(size.width, size.height, side), side};
}

/// Rounds as torchvision does, so that both take the same pixels.
std::int64_t half_rounded(std::int64_t rest) {
  return rest < 0 ? rest / 2 : std::lrint(static_cast<double>(rest) / 2);
}
Box in_the_middle(Size of, std::int64_t width, std::int64_t height) {
  return {half_rounded(of.width - width), half_rounded(of.height - height), width, height};
}

// ---- Checks

/// Checks that a change makes sense, and says which size it makes of another one, where that is known.
struct SizeAfter {
  std::optional<Size> before;

  std::optional<Size> operator()(const Resize& change) const { return checked(change); }
  std::optional<Size> operator()(const ResizeShorter& change) const {
    checked(Resize{change.side, change.side});
    return before ? std::optional{with_shorter_side(*before, change.side)} : std::nullopt;
  }
  std::optional<Size> operator()(const CenterCrop& change) const { return checked(change); }
  std::optional<Size> operator()(const RandomCrop& change) const {
    checked(Resize{change.padding + 1, change.padding + 1});
    return checked(change);
  }
  std::optional<Size> operator()(const RandomResizedCrop& change) const {
    check_part(change, "a random crop");
    return checked(change);
  }
  std::optional<Size> operator()(const ColorJitter& change) const {
    for (const double each : {change.brightness, change.contrast, change.saturation}) {
      if (!(each >= 0)) refuse_change("colours cannot change by " + std::to_string(each));
    }
    if (!(change.hue >= 0 && change.hue <= 0.5)) {
      refuse_change("a hue can be turned by 0 to 0.5, and not by " + std::to_string(change.hue));
    }
    return before;
  }
  std::optional<Size> operator()(const RandomErasing& change) const {
    check_part(change, "a random erasing");
    return check_probability(change);
  }
  std::optional<Size> operator()(const auto& change) const { return check_probability(change); }

 private:
  static Size checked(const auto& change) {
    if (change.height != 0 && change.width != 0 && std::uint64_t{change.height} * change.width <= kPixelsMax) {
      return {change.width, change.height};
    }
    refuse_change("there can be no images of " + std::to_string(change.width) + " x " + std::to_string(change.height) +
                  " pixels");
  }
  static void check_part(const auto& change, const char* what) {
    if (!(change.area_min > 0 && change.area_min <= change.area_max && change.area_max <= 1)) {
      refuse_change(std::string{what} + " of " + std::to_string(change.area_min) + " to " +
                    std::to_string(change.area_max) + " of the area makes no sense");
    }
    if (!(change.ratio_min > 0 && change.ratio_min <= change.ratio_max && std::isfinite(change.ratio_max))) {
      refuse_change(std::string{what} + " with ratios from " + std::to_string(change.ratio_min) + " to " +
                    std::to_string(change.ratio_max) + " makes no sense");
    }
  }
  std::optional<Size> check_probability(const auto& change) const {
    if (!(change.probability >= 0 && change.probability <= 1)) {
      refuse_change("a probability of " + std::to_string(change.probability) + " makes no sense");
    }
    return before;
  }
};

// ---- Changes

/// Draws a part of random area and ratio that is smaller than the image by `margin` pixels or more.
std::optional<Box> random_part(Size size, const auto& change, std::int64_t margin, Chance& chance) {
  const double pixels = static_cast<double>(size.width) * size.height;
  for (int draw = 0; draw < kDraws; ++draw) {
    const double area = pixels * chance.between(change.area_min, change.area_max);
    const double ratio = chance.by_ratio(change.ratio_min, change.ratio_max);
    const std::int64_t width = std::lround(std::sqrt(area * ratio));
    const std::int64_t height = std::lround(std::sqrt(area / ratio));
    const std::int64_t right = size.width - width;
    const std::int64_t below = size.height - height;
    if (width <= 0 || height <= 0 || right < margin || below < margin) continue;
    const std::int64_t x = chance.below(right + 1);
    return Box{x, chance.below(below + 1), width, height};
  }
  return std::nullopt;
}

/// The largest part in the middle that has a ratio between these.
Box largest_part(Size size, double ratio_min, double ratio_max) {
  const double ratio = static_cast<double>(size.width) / size.height;
  if (ratio < ratio_min) return in_the_middle(size, size.width, std::max(1L, std::lround(size.width / ratio_min)));
  if (ratio > ratio_max) return in_the_middle(size, std::max(1L, std::lround(size.height * ratio_max)), size.height);
  return box_of(size);
}

/// Applies a change to an image.
struct Apply {
  ImageView& view;
  Chance& chance;
  const std::string& name;

  void operator()(const Resize& change) const { view.resize({change.width, change.height}); }
  void operator()(const ResizeShorter& change) const {
    const Size size = with_shorter_side(view.size(), change.side);
    if (std::uint64_t{size.width} * size.height > kPixelsMax) {
      refuse_change(name + ": its " + std::to_string(view.size().width) + " x " + std::to_string(view.size().height) +
                    " pixels would become " + std::to_string(size.width) + " x " + std::to_string(size.height));
    }
    view.resize(size);
  }
  void operator()(const CenterCrop& change) const {
    view.crop(in_the_middle(view.size(), change.width, change.height));
  }
  void operator()(const RandomCrop& change) const {
    const auto place = [&](std::int64_t before, std::int64_t after) {
      const std::int64_t border = std::max<std::int64_t>(change.padding, after - before);
      return chance.below(before + 2 * border - after + 1) - border;
    };
    const std::int64_t x = place(view.size().width, change.width);
    view.crop({x, place(view.size().height, change.height), change.width, change.height});
  }
  void operator()(const RandomResizedCrop& change) const {
    const auto part = random_part(view.size(), change, 0, chance);
    view.crop(part.value_or(largest_part(view.size(), change.ratio_min, change.ratio_max)));
    view.resize({change.width, change.height});
  }
  void operator()(const RandomHorizontalFlip& change) const {
    if (chance.happens(change.probability)) view.flip_horizontally();
  }
  void operator()(const RandomVerticalFlip& change) const {
    if (chance.happens(change.probability)) view.flip_vertically();
  }
  void operator()(const ColorJitter& change) const { change_colors(view.pixels(), change, chance); }
  void operator()(const RandomGrayscale& change) const {
    if (chance.happens(change.probability)) make_gray(view.pixels());
  }
  void operator()(const RandomErasing& change) const {
    if (!chance.happens(change.probability)) return;
    if (const auto part = random_part(view.size(), change, 1, chance)) fill(view.pixels(), *part, change.color);
  }
};

}  // namespace

ImageChanges::ImageChanges(std::vector<ImageChange> changes) : changes_{std::move(changes)} {
  std::optional<Size> size;
  for (const ImageChange& each : changes_) size = std::visit(SizeAfter{size}, each);
  if (!size) {
    throw_error(Error{ErrorCode::kInvalidArgument, "the changes leave images of different sizes",
                      "Resize them to a height and a width, or take a crop."});
  }
  size_ = *size;
}

Pixels ImageChanges::apply(ImageFile& file, std::uint64_t chance, const std::string& name) const {
  ImageView view{file};
  Chance drawn{chance};
  for (const ImageChange& each : changes_) std::visit(Apply{view, drawn, name}, each);
  return std::move(view.pixels());
}

}  // namespace pharos::ml
