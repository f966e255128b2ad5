// A training on actors that reserve a GPU each, one of which is killed. The node takes the simulated devices for GPUs,
// because the tests' NVML says that there are two.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/ml/device.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/resnet.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "demand.hpp"
#include "devices.hpp"
#include "mishaps.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

using fitting::Images;
using fitting::Mishap;

constexpr std::uint64_t kNever = 0;
constexpr std::chrono::microseconds kLongestDelay{200};

/// Runs a rank's work on streams that delay theirs, except for the seed 0. Throws unless all accesses were in order.
template <class Work>
void in_an_order(std::uint64_t seed, const Work& work) {
  torch::set_num_threads(1);
  simulated::streams().set_delays(seed, seed == 0 ? kLongestDelay.zero() : kLongestDelay);
  work();
  simulated::streams().synchronize();
  std::string unordered;
  for (const std::string& each : simulated::order().take_reports()) unordered += each + '\n';
  if (!unordered.empty()) throw std::runtime_error{unordered};
}

std::uint64_t seeds() {
  const char* const given = std::getenv("PHAROS_DEVICE_SEEDS");
  return given == nullptr ? 5 : std::strtoull(given, nullptr, 10);
}

std::vector<double> losses(const TrainResult& result) {
  std::vector<double> losses;
  for (const TrainReport& each : result.reports) losses.push_back(*each.metrics.find("loss"));
  return losses;
}

// ---- A ResNet18

constexpr std::int64_t kKinds = 3;
constexpr std::uint64_t kSteps = 6;  // of two ranks with four pictures each

/// Learns how bright a picture is. Rank 1 is killed before it commits step `dies_at`.
class Pictures : public Learner {
 public:
  explicit Pictures(std::uint64_t dies_at) : dies_at_{dies_at} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override {
    auto random = at::make_generator<at::CPUGeneratorImpl>(1);
    const Tensor kinds = torch::arange(8 * static_cast<std::int64_t>(kSteps), torch::kLong).remainder(kKinds);
    const Tensor images = torch::randn({kinds.numel(), 1, 32, 32}, random) + kinds.view({-1, 1, 1, 1});
    return rows_of({{"image", array_of(images)}, {"kind", array_of(kinds)}});
  }
  Tensor training_step(const Batch& batch) override {
    demand(device().type() == (pharos::context().gpus.empty() ? at::kCPU : at::kPrivateUse1),
           "it trains on what it has reserved");
    return torch::cross_entropy_loss(net_(on_device(batch, "image")), on_device(batch, "kind"));
  }
  Optimization configure_optimizers() override {
    return {.rule = Sgd{.lr = 0.01, .momentum = 0.9}, .weight_decay = 1e-4, .clip_norm = 1};
  }
  void add_to_state(State& state) override {
    state.before_save([this] {
      const bool is_first = context().attempt() == 0 && !context().is_replacement();
      if (++commits_ == dies_at_ && is_first && context().rank() == 1) ::kill(::getpid(), SIGKILL);
    });
  }

 private:
  const std::uint64_t dies_at_;
  std::uint64_t commits_ = 0;
  ResNet18 net_{ResNet18Options{.channels = 1, .classes = kKinds}};
};

void learn_pictures(TrainContext& context, std::uint64_t dies_at, std::uint64_t seed) {
  in_an_order(seed, [&] {
    torch::manual_seed(context.seed());
    Pictures learner{dies_at};
    fit(context, learner, {.batch = 4, .epochs = 1});
  });
}

class FitOnSimulatedGpus : public cluster::ClusterTest {};

TEST_F(FitOnSimulatedGpus, ResNetLearnsThereAsOnTheCpuAndADeathCostsNoStep) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{240});
  const auto train = [&](double gpus, std::uint64_t dies_at, std::uint64_t seed) {
    Trainer trainer{runtime,
                    {.scaling = {.workers = 2, .cpus_per_worker = 0, .gpus_per_worker = gpus}, .progress = false}};
    return trainer.run<&learn_pictures>(dies_at, seed);
  };
  const std::vector<double> on_cpu = losses(train(0, kNever, 0));
  const std::vector<double> on_gpus = losses(train(1, kNever, 0));
  ASSERT_EQ(on_cpu.size(), kSteps);
  ASSERT_EQ(on_gpus.size(), kSteps);
  EXPECT_LT(on_cpu.back(), 0.9 * on_cpu.front());
  for (std::size_t i = 0; i < kSteps; ++i) EXPECT_NEAR(on_gpus[i], on_cpu[i], 1e-3) << i;

  const TrainResult killed = train(1, 4, 1);
  ASSERT_EQ(killed.interruptions.size(), 1U);
  EXPECT_TRUE(killed.interruptions[0].is_replacement);
  EXPECT_SAYS(killed.interruptions[0].why, "rank 1");
  EXPECT_LE(killed.interruptions[0].step, 3U);  // those that the trainer had heard of
  EXPECT_EQ(losses(killed), on_gpus);
}

// ---- Each strategy

void learn_images(TrainContext& context, const Mishap& mishap, const std::string& strategy, std::uint64_t seed) {
  in_an_order(seed, [&] {
    torch::manual_seed(context.seed());
    Images learner{mishap};
    fit(context, learner, {.batch = 5, .epochs = 2, .strategy = *strategy_named(strategy)});
  });
}

class Strategies : public cluster::ClusterTest {
 protected:
  static TrainResult train(Runtime& runtime, const std::string& strategy, const Mishap& mishap, std::uint64_t seed,
                           std::size_t ranks = 2) {
    const TemporaryFolder folder;
    Trainer trainer{runtime,
                    {.scaling = {.workers = ranks, .cpus_per_worker = 0, .gpus_per_worker = 1},
                     .seed = 3,
                     .folder = folder.path(),
                     .save_every = 4,
                     .progress = false}};
    return trainer.run<&learn_images>(mishap, strategy, seed);
  }
};

TEST_F(Strategies, LearnTheSameInAllOrdersOfTheStreams) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60 + 20 * seeds()});
  std::vector<double> copies;
  for (const std::string strategy : {"copies", "zero1", "zero2", "fsdp"}) {
    const std::vector<double> calm = losses(train(runtime, strategy, {}, 0));
    if (copies.empty()) copies = calm;
    ASSERT_EQ(calm.size(), 2 * 7U);
    for (std::size_t i = 0; i < calm.size(); ++i) EXPECT_NEAR(calm[i], copies[i], 1e-9) << strategy << ' ' << i;
    for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
      EXPECT_EQ(losses(train(runtime, strategy, {}, seed)), calm) << strategy << ", delays by seed " << seed;
    }
  }
}

/// The host of a rank without others runs ahead of its device.
TEST_F(Strategies, ARankAloneLearnsTheSame) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60 + 10 * seeds()});
  const std::vector<double> calm = losses(train(runtime, "copies", {}, 0, 1));
  ASSERT_EQ(calm.size(), 2 * 13U);
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    EXPECT_EQ(losses(train(runtime, "copies", {}, seed, 1)), calm) << "delays by seed " << seed;
  }
}

TEST_F(Strategies, LearnTheSameWhenARankIsKilled) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const std::string strategy : {"copies", "zero1", "zero2", "fsdp"}) {
    const std::vector<double> calm = losses(train(runtime, strategy, {}, 0));
    for (const Mishap::At at : {Mishap::At::kBeforeForward, Mishap::At::kBeforeBackward, Mishap::At::kBeforeCommit}) {
      SCOPED_TRACE(strategy + " at " + std::to_string(static_cast<int>(at)));
      const TrainResult killed = train(runtime, strategy, {.at = at, .ranks = {1}, .step = 8}, 1);
      ASSERT_EQ(killed.interruptions.size(), 1U);
      EXPECT_EQ(killed.interruptions[0].is_replacement, strategy == "copies");
      EXPECT_SAYS(killed.interruptions[0].why, "rank 1");
      EXPECT_EQ(losses(killed), calm);
    }
  }
}

}  // namespace
}  // namespace pharos::ml
