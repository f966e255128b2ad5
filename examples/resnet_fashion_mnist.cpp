// A residual network learns to tell pictures of ten kinds apart, on ranks that each have a copy of the network and a
// share of every batch. The pictures are those of FashionMNIST, if its files are given, or figures that this program
// draws.
//
//   pharos-resnet-fashion-mnist --ranks 2 --save resnet18.safetensors
//   pharos-resnet-fashion-mnist --data fashion-mnist --epochs 10 --folder runs/fashion
//
// With a folder, a training that was ended continues from its last checkpoint. The saved network has torchvision's
// names: in Python, resnet18(num_classes=10) with another conv1 loads the file.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/ml/resnet.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace {

namespace fs = std::filesystem;
namespace ml = pharos::ml;
using torch::Tensor;

constexpr std::int64_t kKinds = 10;
constexpr std::int64_t kSide = 28;        // width and height of a drawn picture
constexpr std::uint64_t kDrawn = 2000;    // number of drawn pictures without --samples
constexpr std::size_t kBatch = 64;        // of all ranks together
constexpr std::uint64_t kSaveEvery = 25;  // steps
constexpr float kMean = 0.286F;           // of FashionMNIST's pixels
constexpr float kDeviation = 0.353F;
constexpr double kMuchBetterThanChance = 0.5;

// ---- Pictures

/// Grey pictures with one byte for each pixel, and one byte for the kind of each picture.
struct Pictures {
  std::vector<std::int64_t> shape{};  // number of pictures, height, width
  pharos::Bytes pixels{};
  pharos::Bytes kinds{};

  auto pharos_fields() { return std::tie(shape, pixels, kinds); }
};

/// Returns whether the point (x, y) is in the figure, which reaches from -1 to 1. Each figure looks the same in a
/// mirror.
bool is_inside(std::uint8_t kind, float x, float y) {
  const float radius = std::hypot(x, y);
  const float outer = std::max(std::abs(x), std::abs(y));
  const float inner = std::min(std::abs(x), std::abs(y));
  switch (kind) {
    case 0: return radius < 1;                                           // a disc
    case 1: return radius < 1 && radius > 0.6F;                          // a ring
    case 2: return outer < 0.9F;                                         // a square
    case 3: return outer < 0.9F && outer > 0.55F;                        // a frame
    case 4: return outer < 1 && inner < 0.25F;                           // a cross
    case 5: return radius < 1 && outer - inner < 0.3F;                   // a cross that lies on its side
    case 6: return y < 0.8F && y > 2 * std::abs(x) - 1;                  // a triangle
    case 7: return outer < 1 && std::sin(9 * y) > 0;                     // bars, one above the other
    case 8: return outer < 1 && std::cos(9 * x) > 0;                     // bars, one beside the other
    default: return outer < 1 && std::sin(9 * y) * std::cos(9 * x) > 0;  // a chessboard
  }
}

/// Draws figures of all kinds with random places, sizes and brightness, and with noise.
Pictures draw_pictures(unsigned seed, std::uint64_t count) {
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> place{9, kSide - 10};
  std::uniform_real_distribution<float> size{6, 11};
  std::uniform_real_distribution<float> brightness{90, 200};
  std::normal_distribution<float> noise{0, 25};
  std::vector<std::byte> pixels;
  std::vector<std::byte> kinds;
  for (std::uint64_t number = 0; number < count; ++number) {
    const auto kind = static_cast<std::uint8_t>(number % kKinds);
    const float x0 = place(random), y0 = place(random), scale = 1 / size(random), bright = brightness(random);
    for (std::int64_t y = 0; y < kSide; ++y) {
      for (std::int64_t x = 0; x < kSide; ++x) {
        const bool inside = is_inside(kind, (static_cast<float>(x) - x0) * scale, (static_cast<float>(y) - y0) * scale);
        pixels.push_back(static_cast<std::byte>(std::clamp((inside ? bright : 30.0F) + noise(random), 0.0F, 255.0F)));
      }
    }
    kinds.push_back(std::byte{kind});
  }
  return {{static_cast<std::int64_t>(count), kSide, kSide}, pharos::Bytes{pixels}, pharos::Bytes{kinds}};
}

/// Returns the path of "train-images-idx3-ubyte", or of "train-images.idx3-ubyte" if that file exists. Both names
/// occur.
fs::path file_in(const fs::path& folder, const std::string& name, const std::string& kind) {
  const fs::path other = folder / (name + '.' + kind);
  return fs::exists(other) ? other : folder / (name + '-' + kind);
}

Pictures read_pictures(const fs::path& folder, const std::string& part, std::uint64_t most) {
  const fs::path images_file = file_in(folder, part + "-images", "idx3-ubyte");
  const fs::path kinds_file = file_in(folder, part + "-labels", "idx1-ubyte");
  ml::Array images = ml::read_idx(images_file);
  ml::Array kinds = ml::read_idx(kinds_file);
  const auto refuse = [](const fs::path& file, const ml::Array& array, const std::string& wanted) {
    throw std::runtime_error{file.string() + " has " + ml::describe(array.dtype(), array.shape()) + ", not " + wanted};
  };
  if (images.dtype() != ml::DType::kU8 || images.shape().size() != 3) refuse(images_file, images, "grey pictures");
  if (kinds.dtype() != ml::DType::kU8 || kinds.shape() != std::vector{images.shape()[0]}) {
    refuse(kinds_file, kinds, "a byte for each of " + std::to_string(images.rows()) + " pictures");
  }
  if (most != 0 && most < images.rows()) {
    images = images.part(0, most);
    kinds = kinds.part(0, most);
  }
  return {images.shape(), images.bytes(), kinds.bytes()};
}

/// Returns the pictures as floats around 0. With `flips` a random half of the pictures is mirrored, in each epoch
/// another.
ml::DatasetPtr samples_of(const Pictures& pictures, bool flips) {
  const std::int64_t count = pictures.shape[0], height = pictures.shape[1], width = pictures.shape[2];
  const auto bytes = ml::rows_of({{"image", {ml::DType::kU8, {count, height, width}, pictures.pixels}},
                                  {"kind", {ml::DType::kU8, {count}, pictures.kinds}}});
  const auto change = [flips, width = static_cast<std::size_t>(width)](const ml::Sample& from,
                                                                       const ml::NewSample& to) {
    const std::span<float> image = to.field<float>(0);
    std::ranges::transform(from.field<std::uint8_t>(0), image.begin(),
                           [](std::uint8_t pixel) { return (static_cast<float>(pixel) / 255 - kMean) / kDeviation; });
    for (std::size_t row = 0; flips && from.chance % 2 == 0 && row < image.size(); row += width) {
      std::ranges::reverse(image.subspan(row, width));
    }
    to.field<std::int64_t>(1)[0] = from.field<std::uint8_t>(1)[0];
  };
  return ml::changed(bytes, {{"image", ml::DType::kF32, {1, height, width}}, {"kind", ml::DType::kI64, {}}}, change);
}

// ---- The training

class KindOfPicture : public ml::Learner {
 public:
  KindOfPicture(const Pictures& learned, const Pictures& held_out)
      : learned_{samples_of(learned, true)}, held_out_{samples_of(held_out, false)} {}

  torch::nn::Module& module() override { return *network_; }
  ml::DatasetPtr training_data() override { return learned_; }
  ml::DatasetPtr validation_data() override { return held_out_; }
  Tensor training_step(const ml::Batch& batch) override {
    return torch::cross_entropy_loss(network_(on_device(batch, "image")), on_device(batch, "kind"));
  }
  ml::Metrics validation_step(const ml::Batch& batch) override {
    const Tensor found = network_(on_device(batch, "image")).argmax(1);
    return {{"accuracy", found.eq(on_device(batch, "kind")).to(torch::kDouble).mean().item<double>()}};
  }
  ml::Optimization configure_optimizers() override {
    return {.rule = ml::Sgd{.lr = 0.02, .momentum = 0.9, .nesterov = true},
            .weight_decay = 5e-4,
            .schedule = ml::one_cycle(context().expected_steps())};
  }

 private:
  const ml::DatasetPtr learned_;
  const ml::DatasetPtr held_out_;
  ml::ResNet18 network_{ml::ResNet18Options{.channels = 1, .classes = kKinds}};
};

/// Runs one rank's part of the training.
void train(ml::TrainContext& context, const Pictures& learned, const Pictures& held_out, std::uint64_t epochs,
           const std::string& save) {
  torch::set_num_threads(1);
  torch::manual_seed(context.seed());
  const std::size_t batch = std::max<std::size_t>(kBatch / context.size(), 1);
  KindOfPicture learner{learned, held_out};
  ml::fit(context, learner, {.batch = batch, .epochs = epochs, .strategy = ml::FitStrategy::kCopies});
  if (context.rank() == 0 && !save.empty()) ml::write_safetensors(save, ml::arrays_of(learner.module()));
}

// ---- The program

struct Options {
  std::uint64_t ranks = 2;
  std::uint64_t epochs = 3;
  std::uint64_t samples = 0;
  std::string data{};
  std::string folder{};
  std::string picture{};
  std::string save{};
};

constexpr std::string_view kUsage = R"(usage: pharos-resnet-fashion-mnist [OPTION…]

Trains a ResNet18 to tell pictures of ten kinds apart.

  --ranks N        processes that train it together (2)
  --epochs N       how often each picture is seen (3)
  --samples N      pictures that it learns from (2000 that are drawn, or all of the files)
  --data DIR       with FashionMNIST's four files, or MNIST's, uncompressed; without, figures are drawn
  --folder DIR     for checkpoints, each 25 steps; what is there is gone on with
  --picture FILE   the loss, as SVG
  --save FILE      the trained network, as safetensors with torchvision's names

examples:
  pharos-resnet-fashion-mnist
  pharos-resnet-fashion-mnist --epochs 5 --picture loss.svg --save resnet18.safetensors
  pharos-resnet-fashion-mnist --ranks 8 --data fashion-mnist --epochs 10 --folder runs/fashion
)";

ml::Verdict print_epoch(const ml::TrainReport& report) {
  if (const double* const accuracy = report.metrics.find("validation_accuracy")) {
    std::printf("epoch %2ju: %5.1f %% of those that it has not seen are right, loss %.4f\n", report.epoch + 1,
                100 * *accuracy, *report.metrics.find("loss"));
    std::fflush(stdout);
  }
  return ml::Verdict::kGoOn;
}

int run(pharos::Runtime& runtime, const Options& options) {
  Pictures learned, held_out;
  if (options.data.empty()) {
    const std::uint64_t count = options.samples == 0 ? kDrawn : options.samples;
    learned = draw_pictures(1, count);
    held_out = draw_pictures(2, (count + 3) / 4);
  } else {
    learned = read_pictures(options.data, "train", options.samples);
    held_out = read_pictures(options.data, "t10k", 0);
  }
  std::printf("A ResNet18 learns %jd pictures on %ju ranks; %jd others say how well.\n", learned.shape[0],
              options.ranks, held_out.shape[0]);
  std::fflush(stdout);

  ml::Trainer trainer{runtime,
                      {.name = "resnet18",
                       .scaling = {.workers = options.ranks, .cpus_per_worker = 0},  // ranks may outnumber cores
                       .seed = 1,
                       .folder = options.folder,
                       .save_every = options.folder.empty() ? 0 : kSaveEvery,
                       .callbacks = {&print_epoch}}};
  // The pictures lie in shared memory, where all ranks read them.
  const ml::TrainResult result =
      trainer.run<&train>(runtime.put(learned), runtime.put(held_out), options.epochs,
                          options.save.empty() ? std::string{} : fs::absolute(options.save).string());
  if (!options.picture.empty() && !result.reports.empty()) examples::write(options.picture, result.to_svg());
  if (!options.save.empty()) std::printf("The network is in %s.\n", options.save.c_str());
  if (result.end == ml::TrainResult::End::kInterrupted) {
    std::printf("Interrupted at step %ju.\n", result.steps);
    return 130;
  }
  if (result.reports.empty()) {
    std::printf("%s has all %ju steps already: nothing is left to do.\n", options.folder.c_str(), result.steps);
    return 0;
  }
  std::printf("\n%s\n%.0f samples/s\n", result.to_text_picture().c_str(), *result.mean("samples_per_second"));
  if (options.data.empty()) std::printf("The pictures were drawn by this program; --data DIR takes FashionMNIST's.\n");
  return *result.last("validation_accuracy") > kMuchBetterThanChance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return examples::run_program(argc, argv, kUsage,
                               {{"--ranks", &options.ranks},
                                {"--epochs", &options.epochs},
                                {"--samples", &options.samples},
                                {"--data", &options.data},
                                {"--folder", &options.folder},
                                {"--picture", &options.picture},
                                {"--save", &options.save}},
                               [&](pharos::Runtime& runtime) { return run(runtime, options); });
}
