// A rank that a test starts in a memory cgroup of its own: `limited_rank whole|sharded`. Trains a module of 42 million
// parameters, 168 MiB of floats, and prints the losses of some steps, over all ranks' samples.

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string_view>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>

namespace {

namespace ml = pharos::ml;

constexpr int kLayers = 40;
constexpr std::int64_t kWidth = 1024;
constexpr int kSteps = 4;
constexpr std::int64_t kSamples = 16;  // of all ranks

void train(bool is_sharded) {
  torch::set_num_threads(1);
  ml::Communicator ranks = ml::Communicator::from_environment();
  torch::manual_seed(1);
  torch::nn::Sequential module;
  for (int layer = 0; layer < kLayers; ++layer) module->push_back(torch::nn::Linear(kWidth, kWidth));
  std::optional<ml::Sharded> sharded;
  if (is_sharded) sharded.emplace(*module, ranks, ml::Sharding::kParameters, ml::ShardOptions{});
  ml::Optimizer optimizer{sharded ? sharded->groups(0.01) : ml::groups_of(*module, 0.01), ml::AdamW{.lr = 1e-3}};
  const torch::Tensor x = torch::randn({kSamples, kWidth}).chunk(ranks.size())[ranks.rank()];
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = (module->forward(x) - x).pow(2).mean();
    loss.backward();
    optimizer.step();
    double mean = loss.item<double>();
    ranks.all_reduce(std::span{&mean, 1}, ml::Reduction::kMean);
    if (ranks.rank() == 0) std::printf("%.7f\n", mean);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc == 2 && std::string_view{argv[1]} == "sharded");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
