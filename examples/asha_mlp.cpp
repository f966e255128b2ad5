// A sweep over networks: ASHA gives each trial a few epochs, and more epochs to the best trials only. The networks
// learn to tell the three arms of a spiral apart. The data lies in shared memory once, and every trial reads it there.
//
//   pharos-asha-mlp --trials 40 --folder sweeps/mlp
//   pharos tune show sweeps/mlp

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/tuner.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace {

namespace ml = pharos::ml;
using torch::Tensor;

constexpr std::int64_t kArms = 3;
constexpr std::int64_t kPoints = 3072;
constexpr std::int64_t kTrained = 2048;  // the other points are for validation
constexpr std::int64_t kColumns = 3;     // x, y, arm
constexpr std::uint64_t kEpochs = 27;
constexpr std::int64_t kBatch = 64;

/// The parameters that the sweep searches, with their ranges.
struct Config {
  double rate = 0;
  double decay = 0;
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::string activation;

  void fields(ml::Fields& f) {
    f("rate", rate, ml::log_uniform(1e-4, 1e-1));
    f("decay", decay, ml::log_uniform(1e-6, 1e-1));
    f("width", width, ml::log_integers(4, 64));
    f("layers", layers, ml::integers(1, 3));
    f("activation", activation, ml::choice({"tanh", "relu"}));
  }
};

/// Draws the points directly into shared memory.
pharos::Ref<pharos::SharedArray<float, 2>> make_spirals(pharos::Runtime& runtime) {
  auto rows = runtime.create<float>(kPoints, kColumns);
  torch::manual_seed(1);
  const Tensor arms = torch::arange(kPoints).remainder(kArms);
  const Tensor radius = torch::rand({kPoints}).sqrt();
  const Tensor angle = 5 * radius + arms * (2 * M_PI / kArms) + 0.1 * torch::randn({kPoints});
  const Tensor all = torch::stack({radius * angle.cos(), radius * angle.sin(), arms.to(torch::kFloat)}, 1);
  torch::from_blob(rows.span().data(), {kPoints, kColumns}).copy_(all);
  return std::move(rows).seal();
}

torch::nn::Sequential make_network(const Config& config) {
  torch::nn::Sequential network;
  std::int64_t width = 2;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    network->push_back(torch::nn::Linear(width, config.width));
    if (config.activation == "tanh") {
      network->push_back(torch::nn::Tanh());
    } else {
      network->push_back(torch::nn::ReLU());
    }
    width = config.width;
  }
  network->push_back(torch::nn::Linear(width, kArms));
  return network;
}

/// Returns all parameters of the network, one behind the other, as checkpoints have them.
std::vector<float> numbers_of(const torch::nn::Sequential& network) {
  const Tensor all = torch::nn::utils::parameters_to_vector(network->parameters()).detach();
  return {all.data_ptr<float>(), all.data_ptr<float>() + all.numel()};
}

ml::Metrics train(ml::Trial& trial, const pharos::SharedArray<float, 2>& rows) {
  torch::set_num_threads(1);
  torch::manual_seed(static_cast<std::uint64_t>(trial.number()));
  const auto config = ml::read<Config>(trial.params());
  auto network = make_network(config);
  if (auto saved = trial.checkpoint<std::vector<float>>()) {
    const torch::NoGradGuard none;
    torch::nn::utils::vector_to_parameters(
        torch::from_blob(saved->data(), {static_cast<std::int64_t>(saved->size())}).clone(), network->parameters());
  }
  torch::optim::AdamW optimizer{network->parameters(),
                                torch::optim::AdamWOptions(config.rate).weight_decay(config.decay)};
  const Tensor all = torch::from_blob(const_cast<float*>(rows.data()), {kPoints, kColumns});
  const Tensor places = all.narrow(1, 0, 2).contiguous();
  const Tensor arms = all.select(1, 2).to(torch::kLong);
  ml::Metrics metrics;
  while (trial.step() < kEpochs) {
    const Tensor order = torch::randperm(kTrained);
    for (std::int64_t begin = 0; begin < kTrained; begin += kBatch) {
      const Tensor batch = order.narrow(0, begin, kBatch);
      optimizer.zero_grad();
      torch::cross_entropy_loss(network->forward(places.index_select(0, batch)), arms.index_select(0, batch))
          .backward();
      optimizer.step();
    }
    const torch::NoGradGuard none;
    const Tensor scores = network->forward(places.narrow(0, kTrained, kPoints - kTrained));
    const Tensor wanted = arms.narrow(0, kTrained, kPoints - kTrained);
    metrics = {{"loss", torch::cross_entropy_loss(scores, wanted).item<double>()},
               {"accuracy", scores.argmax(1).eq(wanted).to(torch::kDouble).mean().item<double>()}};
    if (trial.report(metrics, [&] { return numbers_of(network); }) != ml::Verdict::kGoOn) break;
  }
  return metrics;
}

int run(int argc, char** argv) {
  std::uint64_t trials = 40;
  std::string folder;
  std::string picture;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--trials") == 0 && has_value) {
      trials = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--folder") == 0 && has_value) {
      folder = argv[++i];
    } else if (std::strcmp(argv[i], "--picture") == 0 && has_value) {
      picture = argv[++i];
    } else {
      const bool help = std::strcmp(argv[i], "--help") == 0;
      (help ? std::cout : std::cerr)
          << "usage: pharos-asha-mlp [--trials N] [--folder DIR] [--picture FILE.svg]\n\n"
             "  --folder DIR    keeps the sweep there, to be looked at with pharos tune, and gone on with\n"
             "  --picture FILE  draws all trials\n\nexamples:\n  pharos-asha-mlp\n"
             "  pharos-asha-mlp --trials 100 --folder sweeps/mlp\n";
      return help ? 0 : 2;
    }
  }
  pharos::Runtime runtime{argc, argv};
  const ml::Space space = ml::space_of<Config>();
  ml::Tuner tuner{runtime,
                  {.space = space,
                   .metric = "loss",
                   .trials = trials,
                   .searcher = ml::tpe(space, {.seed = 1}),
                   .scheduler = ml::asha({.most = kEpochs, .factor = 3}),
                   .save_every = 9,
                   .folder = folder,
                   .tensorboard = !folder.empty()}};
  const auto data = make_spirals(runtime);
  const ml::SweepResults results = folder.empty() ? tuner.run<&train>(data) : tuner.restore<&train>(data);
  std::cout << results.summary() << "\nThe spirals were drawn by this program.\n\n"
            << results.table(8) << '\n'
            << results.to_text_picture();
  if (!picture.empty()) {
    examples::write(picture, results.to_svg());
    std::cout << "\nThe same as a picture: " << picture << '\n';
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
