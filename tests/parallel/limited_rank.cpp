// A rank that a test starts in a memory cgroup of its own: `limited_rank whole|sharded adamw|sgd LAYERS [FOLDER]`.
// Trains a module of LAYERS layers with a million parameters (4 MiB of floats) each. With FOLDER the module is made in
// files there. Rank 0 prints the loss of each step, as the mean over all ranks.

#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/disk_backed.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>

namespace {

namespace ml = pharos::ml;

constexpr std::int64_t kWidth = 1024;
constexpr int kSteps = 4;
constexpr std::int64_t kSamples = 16;  // of all ranks together

void train(bool is_sharded, const ml::Rule& rule, int layers, const char* folder) {
  torch::set_num_threads(1);
  ml::Communicator ranks = ml::Communicator::from_environment();
  torch::manual_seed(1);
  std::optional<ml::DiskBacked> disk;
  if (folder != nullptr) disk.emplace(folder);
  torch::nn::Sequential module;
  for (int layer = 0; layer < layers; ++layer) module->push_back(torch::nn::Linear(kWidth, kWidth));
  std::optional<ml::Sharded> sharded;
  if (is_sharded) sharded.emplace(*module, ranks, ml::Sharding::kParameters, ml::ShardOptions{});
  disk.reset();
  ml::Optimizer optimizer{sharded ? sharded->groups(0.01) : ml::groups_of(*module, 0.01), rule};
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
    if (argc < 4) throw std::invalid_argument{"limited_rank whole|sharded adamw|sgd LAYERS [FOLDER]"};
    const auto rule = std::string_view{argv[2]} == "sgd" ? ml::Rule{ml::Sgd{.lr = 0.1}} : ml::AdamW{.lr = 1e-3};
    train(std::string_view{argv[1]} == "sharded", rule, std::atoi(argv[3]), argc == 5 ? argv[4] : nullptr);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
