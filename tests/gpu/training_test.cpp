// Training on a GPU gives the same results as on the CPU. tests/device runs these tests on simulated GPUs.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/random_state.hpp>
#include <pharos/ml/recompute.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/sync_batch_norm.hpp>
#include <pharos/ml/training.hpp>

#include "gpu_test.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

class GpuTraining : public GpuTest {};

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first{register_module("first", torch::nn::Linear(7, 33))},
        norm{register_module("norm", torch::nn::BatchNorm1d(33))},
        second{register_module("second", torch::nn::Linear(33, 3))},
        unused{register_module("unused", torch::nn::Linear(3, 3))} {}
  Tensor forward(const Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
  torch::nn::Linear unused;
};
TORCH_MODULE(Net);

Net net_on(at::Device device, torch::Dtype dtype = torch::kDouble) {
  Net net;
  net->to(dtype);
  {
    const torch::NoGradGuard no_grad;
    std::uint64_t seed = 1;
    for (auto& each : net->parameters()) each.copy_(random_numbers(++seed, each.sizes().vec(), dtype) * 0.2);
  }
  net->to(device);
  return net;
}

Tensor values(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const auto& each : module.parameters()) all.push_back(each.detach().cpu().to(torch::kDouble).flatten());
  for (const auto& each : module.buffers()) all.push_back(each.detach().cpu().to(torch::kDouble).flatten());
  return torch::cat(all);
}
Tensor loss_of(Net& net, const Tensor& x, const Tensor& y) {
  const Tensor& weight = net->first->weight;
  return (net(x.to(weight.device(), weight.scalar_type())) - y.to(weight.device())).pow(2).mean();
}

// ---- One process

TEST_F(GpuTraining, OptimizersStepAsOnTheCpu) {
  const std::vector<Rule> rules{AdamW{.lr = 1e-2, .eps = 1e-5}, Sgd{.lr = 1e-2}, Sgd{.lr = 1e-2, .momentum = 0.9},
                                Sgd{.lr = 1e-2, .momentum = 0.9, .nesterov = true}, Lion{.lr = 1e-3}};
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Net here = net_on(at::kCPU);
    Net there = net_on(gpu_);
    if (std::holds_alternative<Lion>(rules[i])) {
      // Batch normalisation cancels a part of the gradient, and leaves only rounding errors there. Lion would follow
      // their sign.
      here->norm->eval();
      there->norm->eval();
    }
    Optimizer by_cpu{groups_of(*here, 0.1), rules[i]};
    Optimizer by_gpu{groups_of(*there, 0.1), rules[i]};
    for (std::uint64_t step = 0; step < 20; ++step) {
      const Tensor x = random_numbers(step, {8, 7});
      const Tensor y = random_numbers(step + 1000, {8, 3});
      for (auto& [net, optimizer] : {std::pair{&here, &by_cpu}, std::pair{&there, &by_gpu}}) {
        optimizer->zero_grad();
        loss_of(*net, x, y).backward();
        EXPECT_GT(clip_norm((*net)->parameters(), 1.0), 0);
        optimizer->step();
      }
    }
    EXPECT_LE(largest_difference(values(*here), values(*there)), 1e-9) << "rule " << i;
  }
}

TEST_F(GpuTraining, HalvesAreKeptInFloatAndWhoeverWritesThemCounts) {
  Net here = net_on(at::kCPU, torch::kBFloat16);
  Net there = net_on(gpu_, torch::kBFloat16);
  Optimizer by_cpu{groups_of(*here, 0.1), AdamW{.lr = 1e-2}};
  Optimizer by_gpu{groups_of(*there, 0.1), AdamW{.lr = 1e-2}};
  const Tensor at_first = values(*there);
  for (std::uint64_t step = 0; step < 50; ++step) {
    for (auto& [net, optimizer] : {std::pair{&here, &by_cpu}, std::pair{&there, &by_gpu}}) {
      std::uint64_t seed = step * 100;
      for (auto& each : (*net)->parameters()) {
        each.mutable_grad() = random_numbers(++seed, each.sizes().vec(), torch::kBFloat16).to(each.device());
      }
      if (step == 30) {
        const torch::NoGradGuard no_grad;
        (*net)->first->bias.fill_(0.5);
      }
      optimizer->step();
    }
  }
  EXPECT_LE(largest_difference(values(*here), values(*there)), 0.01);
  EXPECT_GT(largest_difference(at_first, values(*there)), 0.1);
  for (Optimizer::State& each : by_gpu.states()) {
    EXPECT_LE(
        largest_difference(each.whole.cpu(),
                           each.parameter.detach().as_strided({each.parameter.numel()}, {1}).cpu().to(torch::kFloat)),
        0.01);
  }
  EXPECT_NEAR(there->first->bias.mean().item<float>(), 0.5, 0.2);
}

TEST_F(GpuTraining, AGraphFromBeforeAStepIsOfNoUse) {
  const Tensor all = torch::ones({3}, torch::TensorOptions{}.device(gpu_)).requires_grad_();
  Optimizer optimizer{{{.parameters = {all}}}, Sgd{.lr = 1}};
  const Tensor before = all.pow(2).sum();
  all.pow(2).sum().backward();
  optimizer.step();
  EXPECT_SAYS(message_of<c10::Error>([&] { before.backward(); }), "modified by an inplace operation");
}

TEST_F(GpuTraining, GradientsAreScaledAsOnTheCpu) {
  struct Scaled {
    std::vector<bool> counts;
    double scale;
    Tensor values;
  };
  const auto train = [&](at::Device device) {
    Net net = net_on(device, torch::kFloat);
    Optimizer optimizer{groups_of(*net, 0.1), Sgd{.lr = 1e-2}};
    GradScaler scaler{{.begin = 8, .steps_until_growth = 2}};
    Scaled scaled{};
    for (const float factor : {1.0F, 1.0F, std::numeric_limits<float>::max(), 1.0F}) {
      optimizer.zero_grad();
      const Tensor loss =
          loss_of(net, random_numbers(1, {8, 7}, torch::kFloat), random_numbers(2, {8, 3}, torch::kFloat));
      scaler.scale(loss * factor).backward();
      scaled.counts.push_back(scaler.unscale(net->parameters()));
      if (scaled.counts.back()) optimizer.step();
    }
    scaled.scale = scaler.now();
    scaled.values = values(*net);
    return scaled;
  };
  const Scaled here = train(at::kCPU);
  const Scaled there = train(gpu_);
  EXPECT_EQ(there.counts, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(there.scale, here.scale);
  EXPECT_LE(largest_difference(here.values, there.values), 1e-5);
}

TEST_F(GpuTraining, ARecomputedPartDrawsOnTheGpuWhatItDrew) {
  const auto gradient = [&](bool recomputes) {
    seed_generators(7);
    const Tensor x = torch::ones({64, 64}, torch::TensorOptions{}.device(gpu_)).requires_grad_();
    const auto part = [](const Tensor& in) { return torch::dropout(in * in, 0.5, /*train=*/true); };
    const Tensor out = recomputes ? checkpoint(part, x) : part(x);
    // Other code draws random numbers between forward and backward.
    torch::rand({100}, torch::TensorOptions{}.device(gpu_));
    out.sum().backward();
    return x.grad().cpu();
  };
  const Tensor kept = gradient(false);
  EXPECT_TRUE(torch::equal(kept, gradient(true)));
  EXPECT_GT(kept.std().item<float>(), 0.5);
}

TEST_F(GpuTraining, RandomStatesAreSavedWithTheGpus) {
  const auto draw = [&] { return torch::rand({5}, torch::TensorOptions{}.device(gpu_)).cpu(); };
  draw();
  const RandomState then = RandomState::now();
  const Tensor first = draw();
  EXPECT_FALSE(torch::equal(first, draw()));
  RandomState::from_bytes(then.bytes()).restore();
  EXPECT_TRUE(torch::equal(first, draw()));
}

TEST_F(GpuTraining, AStateOnTheGpuIsFetchedAndStored) {
  Net net = net_on(gpu_);
  Optimizer optimizer{groups_of(*net, 0.1), AdamW{.lr = 1e-2}};
  const auto step = [&] {
    optimizer.zero_grad();
    loss_of(net, random_numbers(1, {8, 7}), random_numbers(2, {8, 3})).backward();
    optimizer.step();
  };
  step();
  State state;
  add_to(state, *net);
  add_to(state, optimizer, *net);
  state.call_before_save();
  const Tensor then = values(*net);
  const auto kept = [&] {
    std::vector<Tensor> all;
    for (const Optimizer::State& each : optimizer.states()) {
      for (const Tensor& its : each.values) all.push_back(its.cpu());
      all.push_back(torch::full({1}, static_cast<double>(each.steps)));
    }
    return torch::cat(all);
  };
  const Tensor kept_then = kept();
  std::vector<std::vector<std::byte>> saved;
  for (const StateSlice& each : state.slices()) saved.emplace_back(each.bytes.begin(), each.bytes.end());
  step();
  EXPECT_GT(largest_difference(then, values(*net)), 1e-4);
  for (std::size_t i = 0; i < saved.size(); ++i) std::ranges::copy(saved[i], state.slices()[i].bytes.begin());
  state.call_after_load();
  EXPECT_EQ(largest_difference(then, values(*net)), 0);
  EXPECT_EQ(largest_difference(kept_then, kept()), 0);
}

TEST_F(GpuTraining, AModuleOnTheWrongDeviceIsNamed) {
  Communicator ranks = Communicator::alone();
  Net net = net_on(gpu_);
  const std::string says = "\"first.weight\" is on " + gpu_.str();
  EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp{ranks, *net}; }), says);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { fully_shard(*net, ranks); }), says);
}

// ---- Two processes, each a rank, that share the GPU

struct Trained {
  Tensor values;
  Tensor alone;  // the values that one process has learned from the whole batches
  std::size_t operations = 0;
};

Trained train_by_ddp(Communicator& ranks, at::Device device, DdpOptions options) {
  Net one = net_on(device);
  Net copy = net_on(device);
  Communicator gpus = communicator_on(device, ranks);
  if (ranks.rank() != 0) {
    const torch::NoGradGuard no_grad;
    for (auto& each : copy->parameters()) each.zero_();
  }
  options.bucket_bytes = 512;
  options.broadcast_buffers = false;
  Ddp ddp{ranks, gpus, *copy, options};
  one->norm->eval();  // in training, the statistics would be those of a batch, which the ranks have divided
  copy->norm->eval();
  Optimizer one_optimizer{groups_of(*one, 0.01), AdamW{.lr = 1e-2, .eps = 1e-5}};
  Optimizer optimizer{groups_of(*copy, 0.01), AdamW{.lr = 1e-2, .eps = 1e-5}};
  const std::int64_t share = 8 / ranks.size();
  const auto own = [&](const Tensor& rows) { return rows.narrow(0, ranks.rank() * share, share); };
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Tensor x = random_numbers(step, {8, 7});
    const Tensor y = random_numbers(step + 1000, {8, 3});
    one_optimizer.zero_grad();
    loss_of(one, x, y).backward();
    one_optimizer.step();
    optimizer.zero_grad();
    loss_of(copy, own(x), own(y)).backward();
    optimizer.step();
    if (copy->unused->weight.grad().defined()) throw std::runtime_error{"a gradient for what no rank has used"};
  }
  return {values(*copy), values(*one), ddp.last_step().operations};
}

/// Returns the largest difference between what ranks have learned that divide the model and what one process has
/// learned from the whole batches.
double train_divided(Communicator& ranks, at::Device device, Sharding sharding, const ShardOptions& options) {
  Net one = net_on(device);
  Net divided = net_on(device);
  Communicator gpus = communicator_on(device, ranks);
  if (ranks.rank() != 0) {
    const torch::NoGradGuard no_grad;
    for (auto& each : divided->parameters()) each.zero_();
  }
  one->norm->eval();
  divided->norm->eval();
  for (auto& each : divided->buffers()) {
    if (options.param && each.is_floating_point()) each.set_data(each.to(torch::kBFloat16));
  }
  Sharded sharded{*divided, ranks, gpus, sharding, options};
  Optimizer one_optimizer{groups_of(*one, 0.01), AdamW{.lr = 1e-2, .eps = 1e-5}};
  Optimizer optimizer{sharded.groups(0.01), AdamW{.lr = 1e-2, .eps = 1e-5}};
  const std::int64_t share = 8 / ranks.size();
  const auto own = [&](const Tensor& rows) { return rows.narrow(0, ranks.rank() * share, share); };
  const auto accumulate = [&](std::uint64_t step) {
    const Tensor x = random_numbers(step, {8, 7});
    const Tensor y = random_numbers(step + 1000, {8, 3});
    loss_of(one, x, y).backward();
    loss_of(divided, own(x), own(y)).backward();
  };
  for (std::uint64_t step = 0; step < 10; step += 2) {
    one_optimizer.zero_grad();
    optimizer.zero_grad();
    {
      const NoSync held_back = sharded.no_sync();
      accumulate(step);
    }
    accumulate(step + 1);
    const double norm = clip_norm(one->parameters(), 0.5);
    const double norm_of_parts = sharded.clip_norm(0.5);
    if (!options.param && std::abs(norm - norm_of_parts) > 1e-9 * norm) throw std::runtime_error{"another norm"};
    one_optimizer.step();
    optimizer.step();
  }
  const torch::NoGradGuard no_grad;
  const Tensor x = random_numbers(77, {5, 7}).to(device);
  const auto type = divided->first->weight.scalar_type();
  return largest_difference(one->forward(x).cpu(), divided->forward(x.to(type)).cpu());
}

Communicator ranks_of_launcher() {
  const bool has_launcher = std::getenv("WORLD_SIZE") != nullptr;
  return has_launcher ? Communicator::from_environment({.timeout = std::chrono::seconds{30}}) : Communicator::alone();
}

TEST_F(GpuTraining, RanksLearnWhatOneProcessLearnsIfTheyDivideTheModel) {
  Communicator ranks = ranks_of_launcher();
  for (const Sharding sharding : {Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters}) {
    SCOPED_TRACE(static_cast<int>(sharding));
    EXPECT_LE(train_divided(ranks, gpu_, sharding, {}), 1e-9);
    const double shortened = train_divided(ranks, gpu_, sharding, {.param = DType::kBF16, .reduce = DType::kF32});
    EXPECT_LE(shortened, 0.2);
    EXPECT_GT(shortened, 1e-9);
  }
  EXPECT_LE(train_divided(ranks, gpu_, Sharding::kParameters, {.reshard_after_forward = false}), 1e-9);
}

TEST_F(GpuTraining, RanksLearnByPowerSgdWhatTheyLearnOnTheCpu) {
  Communicator ranks = ranks_of_launcher();
  const DdpOptions options{.wire = Wire::kPowerSgd, .power_sgd = {.rank = 2, .exact_steps = 3}};
  const Trained here = train_by_ddp(ranks, gpu_, options);
  const Trained on_cpu = train_by_ddp(ranks, at::kCPU, options);
  EXPECT_LE(largest_difference(here.values, on_cpu.values), 1e-6);
  EXPECT_GT(largest_difference(here.values, here.alone), 1e-6);
}

TEST_F(GpuTraining, RanksNormaliseOverTheWholeBatch) {
  Communicator ranks = ranks_of_launcher();
  const std::int64_t share = 8 / ranks.size();
  const auto own = [&](const Tensor& rows) { return rows.narrow(0, ranks.rank() * share, share); };
  torch::nn::BatchNorm1d whole{5};
  SyncBatchNorm divided{ranks, 5};
  for (torch::nn::Module* const each :
       {static_cast<torch::nn::Module*>(whole.get()), static_cast<torch::nn::Module*>(divided.get())}) {
    each->to(torch::kDouble);
    each->to(gpu_);
  }
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Tensor x = (random_numbers(step, {8, 5}) * 3 + 7).to(gpu_);
    const Tensor of_all = x.clone().requires_grad_();
    const Tensor of_rank = own(x).clone().requires_grad_();
    const Tensor far = random_numbers(step + 100, {8, 5}).to(gpu_);
    whole(of_all).mul(far).sum().backward();
    divided(of_rank).mul(own(far)).sum().backward();
    EXPECT_LE(largest_difference(own(of_all.grad()).cpu(), of_rank.grad().cpu()), 1e-9);
  }
  EXPECT_LE(largest_difference(whole->running_mean.cpu(), divided->running_mean.cpu()), 1e-9);
  EXPECT_LE(largest_difference(whole->running_var.cpu(), divided->running_var.cpu()), 1e-9);
  EXPECT_EQ(divided->num_batches_tracked.item<std::int64_t>(), 3);
}

TEST_F(GpuTraining, AfterAFailureDividedParametersAreNoNumbers) {
  Communicator ranks = Communicator::alone();
  Communicator gpus = communicator_on(gpu_, ranks);
  Net net = net_on(gpu_);
  const Sharded sharded = fully_shard(*net, ranks, gpus);
  gpus.abort("the test gives up");
  const Tensor loss = loss_of(net, random_numbers(1, {8, 7}), random_numbers(2, {8, 3}));
  EXPECT_TRUE(loss.isnan().item<bool>());
  EXPECT_SAYS(message_of<Cancelled>([&] { loss.backward(); }), "the test gives up");
  EXPECT_SAYS(message_of<Cancelled>([&] { sharded.check(); }), "the test gives up");
}

TEST_F(GpuTraining, RanksMakeACommunicatorAgainUnlessAllOfThemUseIt) {
  Communicator ranks = ranks_of_launcher();
  std::optional<Communicator> first{communicator_on(gpu_, ranks)};
  if (ranks.rank() == 0) first.reset();
  Communicator second = communicator_on(gpu_, ranks);
  const Communicator third = communicator_on(gpu_, ranks);
  second.barrier();
}

TEST_F(GpuTraining, RanksLearnWhatOneProcessLearnsFromTheWholeBatch) {
  Communicator ranks = ranks_of_launcher();
  const Trained exact = train_by_ddp(ranks, gpu_, {});
  EXPECT_LE(largest_difference(exact.values, exact.alone), 1e-9);
  EXPECT_GT(exact.operations, 2U);
  const Trained shortened = train_by_ddp(ranks, gpu_, {.wire = Wire::kBf16});
  EXPECT_LE(largest_difference(shortened.values, shortened.alone), 0.2);
  EXPECT_GT(largest_difference(shortened.values, shortened.alone), ranks.size() == 1 ? -1 : 1e-9);
}

}  // namespace
}  // namespace pharos::ml
