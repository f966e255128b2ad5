// A training on actors that reserve a GPU each, one of which is killed. The node takes the simulated devices for GPUs,
// because the tests' NVML says that there are two.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/ml/device.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/resnet.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "cuda/nccl.hpp"
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

/// Learns how bright a picture is. Rank 1 is killed before it commits step `dies_at`. It computes with doubles: in six
/// steps a difference in the order of sums, which the processor decides, grows to more than 1e-3 of the loss of floats.
class Pictures : public Learner {
 public:
  explicit Pictures(std::uint64_t dies_at) : dies_at_{dies_at} { net_->to(torch::kDouble); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override {
    auto random = at::make_generator<at::CPUGeneratorImpl>(1);
    const Tensor kinds = torch::arange(8 * static_cast<std::int64_t>(kSteps), torch::kLong).remainder(kKinds);
    const Tensor images = torch::randn({kinds.numel(), 1, 32, 32}, random, torch::kDouble) + kinds.view({-1, 1, 1, 1});
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
  for (std::size_t i = 0; i < kSteps; ++i) EXPECT_NEAR(on_gpus[i], on_cpu[i], 1e-6) << i;

  const TrainResult killed = train(1, 4, 1);
  ASSERT_EQ(killed.interruptions.size(), 1U);
  EXPECT_TRUE(killed.interruptions[0].is_replacement);
  EXPECT_SAYS(killed.interruptions[0].why, "rank 1");
  EXPECT_LE(killed.interruptions[0].step, 3U);  // those that the trainer had heard of
  EXPECT_EQ(losses(killed), on_gpus);
}

// ---- How the ranks' GPUs reach each other

void count_communicators_of_nccl(TrainContext& context) {
  const Communicator gpus = communicator_on(own_device(), context.communicator());
  context.report({{"nccl", simulated::nccl_communicators()}});
}

TEST_F(FitOnSimulatedGpus, TheRanksUseThePathThatTheTrainerIsGiven) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  for (const GpuPath path : {GpuPath::kPeers, GpuPath::kNccl}) {
    Trainer trainer{runtime,
                    {.scaling = {.workers = 2, .cpus_per_worker = 0, .gpus_per_worker = 1},
                     .gpu_path = path,
                     .metric = "nccl",
                     .progress = false}};
    const TrainResult result = trainer.run<&count_communicators_of_nccl>();
    ASSERT_EQ(result.reports.size(), 1U);
    EXPECT_EQ(*result.reports[0].metrics.find("nccl"), path == GpuPath::kNccl ? 1 : 0);
  }
}

// ---- The strategy that fits the memory

/// A quarter of a million parameters: 4 MiB for a rank that has a copy, with those of Adam; 3 MiB by ZeRO-1.
class Wide : public Learner {
 public:
  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({8, 1024}))}}); }
  Tensor training_step(const Batch& batch) override { return net_(on_device(batch, "x")).square().mean(); }
  Optimization configure_optimizers() override { return {.rule = AdamW{}}; }

 private:
  torch::nn::Linear net_{1024, 1024};
};

/// On a GPU with so much memory. Throws unless rank 0 says `expected`.
void learn_by_memory(TrainContext& context, std::uint64_t mebibytes, const std::string& expected) {
  in_an_order(0, [&] {
    simulated::memory().set_capacity(mebibytes << 20);
    demand(memory_of(own_device()) == mebibytes << 20, "the GPU has so much memory");
    torch::manual_seed(context.seed());
    Wide learner;
    testing::internal::CaptureStderr();
    fit(context, learner, {.batch = 4, .epochs = 1});
    const std::string said = testing::internal::GetCapturedStderr();
    if (context.rank() == 0 && !contains(said, expected)) throw std::runtime_error{said};
  });
}

TEST_F(FitOnSimulatedGpus, ByMemoryChoosesByThatOfTheGpus) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  const auto train = [&](std::uint64_t mebibytes, double gpus, const std::string& expected) {
    Trainer trainer{runtime,
                    {.scaling = {.workers = 2, .cpus_per_worker = 0, .gpus_per_worker = gpus}, .progress = false}};
    trainer.run<&learn_by_memory>(mebibytes, expected);
  };
  train(256, 1, "* copies ");
  train(40, 1, "* copies ");
  train(28, 1, "* zero1 ");
  train(56, 0.5, "* zero1 ");  // two ranks share the GPU
}

TEST_F(FitOnSimulatedGpus, AGpuWithoutRoomIsToldWithItsBytes) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  Trainer trainer{runtime, {.scaling = {.workers = 1, .cpus_per_worker = 0, .gpus_per_worker = 1}, .progress = false}};
  const std::string text = message_of<Exhausted>([&] { trainer.run<&learn_by_memory>(12, ""); });
  EXPECT_SAYS(text, "GPU 0 has no room for a tensor. libtorch says: a simulated device is out of memory");
  EXPECT_SAYS(
      text, "asked for. Of the GPU's 12 MiB this process has now taken 4 MiB, 4 MiB of that for tensors, and others 0");
  EXPECT_SAYS(text, "Take smaller batches");
}

// ---- Waits

/// Notes how often the host has waited, and how much the streams were given, when each step begins.
class Watched : public Wide {
 public:
  Tensor training_step(const Batch& batch) override {
    waits_.push_back(simulated::activity().host_waits);
    calls_.push_back(simulated::activity().calls);
    return Wide::training_step(batch);
  }
  double waits_per_step() const { return per_step(waits_); }
  double calls_per_step() const { return per_step(calls_); }

 private:
  static constexpr std::size_t kFirst = 3;  // the steps before prepare what later steps use
  static double per_step(const std::vector<std::uint64_t>& at_begin) {
    return static_cast<double>(at_begin.back() - at_begin.at(kFirst)) /
           static_cast<double>(at_begin.size() - 1 - kFirst);
  }
  std::vector<std::uint64_t> waits_;
  std::vector<std::uint64_t> calls_;
};

void learn_watched(TrainContext& context, const std::string& strategy, double most_waits) {
  in_an_order(0, [&] {
    torch::manual_seed(context.seed());
    Watched learner;
    fit(context, learner, {.batch = 2, .epochs = 4, .strategy = *strategy_named(strategy)});
    const double waits = learner.waits_per_step();
    if (context.rank() == 0) {
      std::printf("%s on %u ranks: host_waits_per_step %.1f, device_calls_per_step %.1f\n", strategy.c_str(),
                  context.size(), waits, learner.calls_per_step());
    }
    if (waits > most_waits) throw std::runtime_error{"the host waits " + std::to_string(waits) + " times in a step"};
  });
}

/// The loss of each step is reported, so the host reads that one number. Several ranks wait for the last of their
/// reductions, and then the loss is there.
TEST_F(FitOnSimulatedGpus, TheHostWaitsOnceAStep) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  const auto train = [&](std::size_t ranks, const std::string& strategy) {
    Trainer trainer{runtime,
                    {.scaling = {.workers = ranks, .cpus_per_worker = 0, .gpus_per_worker = 1}, .progress = false}};
    trainer.run<&learn_watched>(strategy, 1.0);
  };
  train(1, "copies");
  for (const char* const strategy : {"copies", "zero1", "zero2", "fsdp"}) train(2, strategy);
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
