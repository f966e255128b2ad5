// pharos-bench-images: what torch_peer.py asks of Pharos beside torchvision, on the same files. Prints the images of
// one second, or writes pixels.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/ml/images.hpp>
#include <pharos/ml/loader.hpp>

namespace {

namespace ml = pharos::ml;
using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "usage: pharos-bench-images rate FOLDER THREADS   images of a second: random crops of 224, flipped, normalized\n"
    "       pharos-bench-images pixels FOLDER FILE    writes the middle 224 pixels of each image as safetensors\n";

/// As torch_peer.py measures: one pass over the data by a new loader, from the first batch on.
double rate(const std::string& folder, std::size_t threads) {
  const ml::ImageFolder images = ml::image_folder(
      folder, {.changes = {ml::RandomResizedCrop{224, 224}, ml::RandomHorizontalFlip{}}, .normalize = ml::kImageNet});
  ml::Loader loader{images.data, {.batch = 64, .seed = 1, .threads = threads}};
  if (!loader.next()) throw std::runtime_error{"there are no images"};
  const auto began = Clock::now();
  std::size_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->samples;
  return static_cast<double>(samples) / std::chrono::duration<double>(Clock::now() - began).count();
}

void write_pixels(const std::string& folder, const std::string& file) {
  const ml::ImageFolder images =
      ml::image_folder(folder, {.changes = {ml::ResizeShorter{256}, ml::CenterCrop{224, 224}}, .normalize = {}});
  ml::Loader loader{images.data, {.batch = 1 << 20, .order = ml::Order::in_turn(images.data->size()), .threads = 0}};
  ml::write_safetensors(file, {{"image", (*loader.next())["image"]}});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view what = argc == 4 ? argv[1] : "";
    if (what == "rate") {
      std::printf("%f\n", rate(argv[2], std::stoul(argv[3])));
    } else if (what == "pixels") {
      write_pixels(argv[2], argv[3]);
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pharos-bench-images: %s\n", e.what());
    return 1;
  }
}
