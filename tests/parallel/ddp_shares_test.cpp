// Ranks whose shares of a batch differ, and normalisation over the whole batch.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/sync_batch_norm.hpp>

#include "says.hpp"
#include "twins.hpp"

namespace pharos::ml {
namespace {

TEST_P(DdpTest, UnevenSharesCountByTheirSamples) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    auto [one, copy] = Twins{};
    Ddp ddp{ranks, *copy};
    // Rank r has 2r + 1 samples of each batch.
    const std::int64_t n = ranks.size();
    const std::int64_t r = ranks.rank();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor x = numbers(step, {n * n, 7}, torch::kDouble);
      one->zero_grad();
      one(x).pow(2).sum(1).mean().backward();
      copy->zero_grad();
      ddp.weigh(static_cast<double>(2 * r + 1));
      copy(x.slice(0, r * r, (r + 1) * (r + 1))).pow(2).sum(1).mean().backward();
      EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-12, 1e-14));
      expect_alike(ranks, gradients(*copy));
    }
  });
}

TEST_P(DdpTest, RanksWithFewerBatchesWaitForTheOthers) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    // Rank r has r + 1 batches of four samples. One process does the same if step k has the batches of all ranks that
    // have one.
    auto [one, copy] = Twins{};
    torch::optim::SGD one_optimizer{one->parameters(), 0.1};
    torch::optim::SGD optimizer{copy->parameters(), 0.1};
    const auto batch = [](std::uint64_t rank, std::uint64_t step) {
      return numbers(100 * rank + step, {4, 7}, torch::kDouble);
    };
    for (std::uint64_t step = 0; step < ranks.size(); ++step) {
      std::vector<Tensor> all;
      for (std::uint64_t rank = step; rank < ranks.size(); ++rank) all.push_back(batch(rank, step));
      one_optimizer.zero_grad();
      one(torch::cat(all)).pow(2).sum(1).mean().backward();
      one_optimizer.step();
    }
    Ddp ddp{ranks, *copy};
    for (std::uint64_t step = 0; step <= ranks.rank(); ++step) {
      optimizer.zero_grad();
      ddp.weigh(4);
      copy(batch(ranks.rank(), step)).pow(2).sum(1).mean().backward();
      optimizer.step();
    }
    ddp.finish();
    EXPECT_TRUE(torch::allclose(values(*one), values(*copy), 1e-10, 1e-12));
    expect_alike(ranks, values(*copy));
    EXPECT_EQ(ddp.last_step().number, ranks.size());
  });
}

TEST_P(DdpTest, WhoHasNoSamplesInAStepStepsAsTheOthers) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    // In step k rank k has no samples; a single rank has none in the first step.
    auto [one, copy] = Twins{};
    torch::optim::Adam one_optimizer{one->parameters(), 0.1};
    torch::optim::Adam optimizer{copy->parameters(), 0.1};
    const auto batch = [](std::uint64_t rank, std::uint64_t step) {
      return numbers(100 * rank + step, {4, 7}, torch::kDouble);
    };
    Ddp ddp{ranks, *copy};
    for (std::uint64_t step = 0; step < ranks.size() + 1; ++step) {
      std::vector<Tensor> all;
      for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
        if (rank != step) all.push_back(batch(rank, step));
      }
      one_optimizer.zero_grad();
      if (all.empty()) {
        for (auto& each : one->parameters()) each.mutable_grad() = torch::zeros_like(each);
      } else {
        one(torch::cat(all)).pow(2).sum(1).mean().backward();
      }
      optimizer.zero_grad();
      if (ranks.rank() == step) {
        ddp.weigh(0);
      } else {
        ddp.weigh(4);
        copy(batch(ranks.rank(), step)).pow(2).sum(1).mean().backward();
      }
      // If no rank has samples, the gradient stays undefined.
      if (all.empty()) {
        EXPECT_FALSE(copy->parameters()[0].grad().defined());
      } else {
        one_optimizer.step();
        optimizer.step();
      }
    }
    EXPECT_TRUE(torch::allclose(values(*one), values(*copy), 1e-9, 1e-11));
    expect_alike(ranks, values(*copy));
  });
}

TEST_P(DdpTest, WhoFinishesEarlyKeepsWhatItsOptimizerKnows) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    auto [one, copy] = Twins{};
    torch::optim::SGD optimizer{copy->parameters(), torch::optim::SGDOptions{0.05}.momentum(0.9)};
    Ddp ddp{ranks, *copy};
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      for (std::uint64_t step = 0; step <= ranks.rank(); ++step) {
        optimizer.zero_grad();
        ddp.weigh(4);
        copy(numbers(100 * ranks.rank() + 10 * epoch + step, {4, 7}, torch::kDouble)).pow(2).mean().backward();
        optimizer.step();
      }
      ddp.finish([&optimizer] { optimizer.step(); });
    }
    // The last finish() makes the parameters alike in any case. One more step shows whether the optimizers' states are.
    optimizer.zero_grad();
    copy(torch::ones({4, 7}, torch::kDouble)).pow(2).mean().backward();
    optimizer.step();
    expect_alike(ranks, values(*copy));
  });
}

struct NormedImpl : torch::nn::Module {
  explicit NormedImpl(Communicator& ranks)
      : first{register_module("first", torch::nn::Linear(7, 5))},
        norm{register_module("norm", SyncBatchNorm(ranks, 5))},
        second{register_module("second", torch::nn::Linear(5, 2))} {}
  Tensor forward(const Tensor& x) { return second(norm(first(x).view({-1, 5, 1})).squeeze(2)); }
  torch::nn::Linear first;
  SyncBatchNorm norm;
  torch::nn::Linear second;
};
TORCH_MODULE(Normed);

TEST_P(DdpTest, BatchNormalisationIsThatOfTheWholeBatchAlsoOfUnevenShares) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    torch::nn::BatchNorm1d norm{5};
    torch::nn::Sequential one{torch::nn::Linear(7, 5), norm, torch::nn::Linear(5, 2)};
    one->to(torch::kDouble);
    fill(*one, 3);
    Normed copy{ranks};
    copy->to(torch::kDouble);
    fill(*copy, 3);
    Ddp ddp{ranks, *copy};
    // Rank r has 2r + 1 samples.
    const std::int64_t n = ranks.size();
    const std::int64_t r = ranks.rank();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor x = 3 + numbers(step, {n * n + 1, 7}, torch::kDouble);
      const std::int64_t end = r + 1 == n ? n * n + 1 : (r + 1) * (r + 1);
      one->zero_grad();
      copy->zero_grad();
      const Tensor y = one->forward(x);
      const Tensor share_of_y = copy(x.slice(0, r * r, end));
      EXPECT_TRUE(torch::allclose(share_of_y, y.slice(0, r * r, end), 1e-10, 1e-12));
      (y.pow(2).sum() / static_cast<double>(n)).backward();
      share_of_y.pow(2).sum().backward();
      EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-9, 1e-11));
    }
    EXPECT_TRUE(torch::allclose(norm->running_mean, copy->norm->running_mean, 1e-10, 1e-12));
    EXPECT_TRUE(torch::allclose(norm->running_var, copy->norm->running_var, 1e-10, 1e-12));
    one->eval();
    copy->eval();
    const Tensor x = numbers(9, {2, 7}, torch::kDouble);
    EXPECT_TRUE(torch::allclose(one->forward(x), copy(x), 1e-10, 1e-12));
    message_of<InvalidArgument>([&] { copy->norm->forward(torch::zeros({4, 6})); });
  });
}

TEST_P(DdpTest, BatchNormalisationOfHalvesWithoutWeightsAndByTheMeanOfAllSteps) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    torch::nn::BatchNorm1d one{torch::nn::BatchNormOptions(5).affine(false).momentum(std::nullopt)};
    SyncBatchNorm own{ranks, 5, SyncBatchNormOptions{.momentum = std::nullopt, .affine = false}};
    EXPECT_TRUE(own->parameters().empty());
    for (std::uint64_t step = 0; step < 3; ++step) {
      // The numbers are far from zero, where bfloat16 is coarse.
      const Tensor x = (50 + numbers(step, {4 * ranks.size(), 5}, torch::kFloat)).to(torch::kBFloat16);
      const Tensor wide = x.to(torch::kFloat).requires_grad_();
      const Tensor y = one(wide);
      Tensor part = share(x, ranks).clone().requires_grad_();
      const Tensor part_of_y = own(part);
      EXPECT_EQ(part_of_y.scalar_type(), torch::kBFloat16);
      EXPECT_TRUE(torch::allclose(part_of_y.to(torch::kFloat), share(y, ranks), 1e-2, 1e-2));
      y.pow(3).sum().backward();
      part_of_y.to(torch::kFloat).pow(3).sum().backward();
      EXPECT_TRUE(torch::allclose(part.grad().to(torch::kFloat), share(wide.grad(), ranks), 5e-2, 0.2));
    }
    EXPECT_TRUE(torch::allclose(one->running_mean, own->running_mean, 1e-4, 1e-5));
    EXPECT_TRUE(torch::allclose(one->running_var, own->running_var, 1e-4, 1e-5));
    const Tensor before = own->running_mean.clone();
    EXPECT_EQ(own(torch::zeros({0, 5})).numel(), 0);  // all ranks have no samples
    EXPECT_TRUE(torch::equal(own->running_mean, before));
    const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(own->clone());
    ASSERT_NE(copy, nullptr);
    own->running_mean.zero_();
    EXPECT_TRUE(torch::equal(copy->running_mean, before));
    EXPECT_EQ(copy->num_batches_tracked.item<std::int64_t>(), 3);
  });
}

}  // namespace
}  // namespace pharos::ml
