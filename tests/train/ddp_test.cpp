#include <gtest/gtest.h>
#include <torch/torch.h>

#include <barrier>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sync_batch_norm.hpp>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

enum class Reach { kMemory, kTcp, kMachines };
struct Ranks {
  std::uint32_t count = 1;
  Reach reach = Reach::kMemory;
};

/// Ranks that are threads. Each has a module of its own, with the same values or not.
void on_ranks(const Ranks& ranks, const Rank& body) {
  const CommunicatorOptions options{.timeout = std::chrono::seconds{20}};
  switch (ranks.reach) {
    case Reach::kMemory: return run_threads(ranks.count, options, body);
    case Reach::kTcp: return run_streams(ranks.count, options, body);
    case Reach::kMachines: return run_machines(2, ranks.count / 2, options, body);
  }
}
void on_ranks(std::uint32_t count, const Rank& body) {
  on_ranks(Ranks{count}, body);
}

/// What differs from rank to rank unless somebody sees to it.
void fill(torch::nn::Module& module, std::uint64_t seed) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::NoGradGuard no_grad;
  for (auto& each : module.parameters()) each.normal_(0, 0.2, random);
}

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(std::int64_t in = 7, std::int64_t width = 33, std::int64_t out = 3)
      : first{register_module("first", torch::nn::Linear(in, width))},
        norm{register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))},
        second{register_module("second", torch::nn::Linear(width, out))} {}
  Tensor forward(const Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first;
  torch::nn::LayerNorm norm;
  torch::nn::Linear second;
};
TORCH_MODULE(Mlp);

/// Two of one value: what one process would train, and a rank's copy.
struct Twins {
  explicit Twins(torch::Dtype dtype = torch::kDouble, const Mlp& first = Mlp{}, const Mlp& second = Mlp{})
      : one{first}, copy{second} {
    for (auto* const each : {&one, &copy}) {
      (*each)->to(dtype);
      fill(**each, 3);
    }
  }
  Mlp one;
  Mlp copy;
};

Tensor numbers(std::uint64_t seed, std::vector<std::int64_t> sizes, torch::Dtype dtype) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, random, torch::TensorOptions{}.dtype(dtype));
}

Tensor gradients(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const auto& each : module.parameters()) {
    all.push_back((each.grad().defined() ? each.grad() : torch::zeros_like(each)).flatten());
  }
  return torch::cat(all);
}
Tensor values(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const auto& each : module.parameters()) all.push_back(each.detach().flatten());
  return torch::cat(all);
}

std::vector<const void*> places_of_gradients(const torch::nn::Module& module) {
  std::vector<const void*> places;
  for (const auto& each : module.parameters()) places.push_back(each.grad().data_ptr());
  return places;
}

/// The same bits on all ranks.
void expect_alike(Communicator& ranks, const Tensor& own) {
  const Tensor dense = own.contiguous();
  const std::span<const std::byte> bytes{static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()};
  std::vector<std::byte> all(bytes.size() * ranks.size());
  ranks.all_gather(bytes, std::span{all});
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(std::memcmp(bytes.data(), all.data() + rank * bytes.size(), bytes.size()), 0) << "rank " << rank;
  }
}

/// This rank's part of a batch.
Tensor share(const Tensor& batch, const Communicator& ranks) {
  return batch.chunk(ranks.size())[ranks.rank()];
}

class DdpTest : public testing::TestWithParam<Ranks> {};
INSTANTIATE_TEST_SUITE_P(Of, DdpTest,
                         testing::Values(Ranks{1}, Ranks{2}, Ranks{4}, Ranks{2, Reach::kTcp},
                                         Ranks{4, Reach::kMachines}),
                         [](const auto& chosen) {
                           const char* const reach = chosen.param.reach == Reach::kMemory ? "InMemory"
                                                     : chosen.param.reach == Reach::kTcp  ? "OverTcp"
                                                                                          : "OnMachines";
                           return std::to_string(chosen.param.count) + reach;
                         });

// Sums of small whole numbers are exact, and so is their mean over 2 or 4.
TEST_P(DdpTest, GradientsOfWholeNumbersAreThoseOfOneProcessToTheBit) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    auto whole = [](std::vector<std::int64_t> sizes) {
      return torch::arange(sizes[0] * sizes[1], torch::kDouble).remainder(7).sub(3).view(sizes);
    };
    torch::nn::Linear one{5, 4};
    one->to(torch::kDouble);
    {
      const torch::NoGradGuard no_grad;
      one->weight.copy_(whole({4, 5}));
      one->bias.zero_();
    }
    auto copy = std::dynamic_pointer_cast<torch::nn::LinearImpl>(one->clone());
    const Tensor x = whole({8, 5});
    one(x).pow(2).sum(1).mean().backward();
    Ddp ddp{ranks, *copy};
    copy->forward(share(x, ranks)).pow(2).sum(1).mean().backward();
    EXPECT_TRUE(torch::equal(gradients(*one), gradients(*copy)));
    expect_alike(ranks, gradients(*copy));
  });
}

TEST_P(DdpTest, TrainingIsThatOfOneProcessOnTheWholeBatch) {
  struct Case {
    torch::Dtype dtype;
    double tolerance;
  };
  for (const Case& each : {Case{torch::kDouble, 1e-9}, Case{torch::kFloat, 1e-3}}) {
    on_ranks(GetParam(), [&](Communicator& ranks) {
      Mlp one;
      one->to(each.dtype);
      fill(*one, 7);
      Mlp copy;
      copy->to(each.dtype);
      fill(*copy, ranks.rank() == 0 ? 7 : 100 + ranks.rank());
      Ddp ddp{ranks, *copy, {.bucket_bytes = 512}};
      EXPECT_TRUE(torch::equal(values(*one), values(*copy)));
      torch::optim::AdamW one_optimizer{one->parameters(), torch::optim::AdamWOptions{1e-2}.eps(1e-5)};
      Optimizer optimizer{{{.parameters = copy->parameters(), .weight_decay = 0.01}}, AdamW{.lr = 1e-2, .eps = 1e-5}};
      for (std::uint64_t step = 0; step < 50; ++step) {
        const Tensor x = numbers(step, {8, 7}, each.dtype);
        const Tensor y = numbers(step + 1000, {8, 3}, each.dtype);
        one_optimizer.zero_grad();
        (one(x) - y).pow(2).mean().backward();
        optimizer.zero_grad();
        (copy(share(x, ranks)) - share(y, ranks)).pow(2).mean().backward();
        if (step == 0) {
          const Tensor difference = (gradients(*one) - gradients(*copy)).abs().max();
          const double scale = gradients(*one).abs().max().item<double>();
          EXPECT_LE(difference.item<double>(), scale * (each.dtype == torch::kDouble ? 1e-12 : 1e-5));
        }
        expect_alike(ranks, gradients(*copy));
        one_optimizer.step();
        optimizer.step();
      }
      const double difference =
          ((values(*one) - values(*copy)).abs() / values(*one).abs().clamp_min(0.1)).max().item<double>();
      EXPECT_LE(difference, each.tolerance);
      expect_alike(ranks, values(*copy));
      EXPECT_EQ(ddp.last_step().number, 50U);
    });
  }
}

TEST_P(DdpTest, BucketsAreOfAMebibyte) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    torch::nn::Sequential wide;  // four times a mebibyte and its 2 KiB of bias
    for (int i = 0; i < 4; ++i) wide->push_back(torch::nn::Linear(512, 512));
    Ddp ddp{ranks, *wide};
    for (int step = 0; step < 2; ++step) {
      wide->forward(torch::ones({1, 512})).mean().backward();
      EXPECT_EQ(ddp.last_step().operations, 4U);
      EXPECT_GE(ddp.last_step().bytes, 4U << 20);
    }
  });
}

TEST_P(DdpTest, HoweverTheUserClearsGradients) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    const Tensor x = numbers(1, {8, 7}, torch::kDouble);
    for (const int way : {0, 1, 2}) {
      auto [one, copy] = Twins{};
      Ddp ddp{ranks, *copy};
      std::vector<const void*> places;  // of the buckets, which stay where they are after the first step
      for (int step = 0; step < 4; ++step) {
        for (auto* each : {&one, &copy}) {
          if (way == 0) (*each)->zero_grad();
          if (way == 1) (*each)->zero_grad(false);
        }
        one(x).pow(2).mean().backward();
        copy(share(x, ranks)).pow(2).mean().backward();
        EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-12, 1e-14)) << way << ' ' << step;
        if (step == 0) places = places_of_gradients(*copy);
        EXPECT_EQ(places_of_gradients(*copy), places) << way << ' ' << step;
      }
    }
  });
}

/// Their second layer is used first.
TEST_P(DdpTest, AfterTheFirstStepGradientsLieInTheOrderInWhichTheyComeAtRank0) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    torch::nn::Linear later{8, 8};
    torch::nn::Linear sooner{8, 8};
    torch::nn::Sequential both{later, sooner};
    Ddp ddp{ranks, *both};
    const auto step = [&](bool as_rank_0) {
      both->zero_grad();
      const Tensor x = torch::ones({2, 8});
      (as_rank_0 ? later(sooner(x)) : sooner(later(x))).sum().backward();
    };
    step(ranks.rank() == 0);  // the others' come the other way
    const auto places = places_of_gradients(*both);
    EXPECT_LT(places[0], places[2]) << "what was used last comes first";
    step(true);
    EXPECT_EQ(places_of_gradients(*both), places);
  });
}

TEST_P(DdpTest, GradientsAreSummedUpHereWithoutSync) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    auto [one, copy] = Twins{};
    Ddp ddp{ranks, *copy};
    for (std::uint64_t step = 0; step < 3; ++step) {
      one->zero_grad();
      copy->zero_grad();
      const Tensor first = numbers(step, {8, 7}, torch::kDouble);
      const Tensor second = numbers(step + 50, {8, 7}, torch::kDouble);
      one(first).pow(2).mean().backward();
      one(second).pow(2).mean().backward();
      {
        const auto no_sync = ddp.no_sync();
        copy(share(first, ranks)).pow(2).mean().backward();
      }
      EXPECT_EQ(ddp.last_step().number, step);
      copy(share(second, ranks)).pow(2).mean().backward();
      EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-12, 1e-14));
    }
  });
}

/// Parameters of all kinds of shapes, of which a forward uses some.
struct OddImpl : torch::nn::Module {
  OddImpl() {
    for (const std::int64_t size : {0, 1, 1, 17, 1000, 3}) {
      parameter.push_back(register_parameter("p" + std::to_string(parameter.size()), torch::ones({size})));
    }
    frozen = register_parameter("frozen", torch::ones({5}), false);
    transposed = register_parameter("transposed", torch::arange(12.0).view({3, 4}).t().detach());
    tied = register_parameter("tied", parameter[3]);
    half = register_parameter("half", torch::ones({9}, torch::kBFloat16));
  }
  Tensor forward(const std::vector<std::size_t>& used) {
    Tensor sum = torch::zeros({});
    for (const std::size_t each : used) sum = sum + (parameter[each] * parameter[each]).sum();
    return sum + (tied * frozen.sum()).sum() + (transposed * transposed).sum() + half.to(torch::kFloat).sum();
  }
  std::vector<Tensor> parameter;
  Tensor frozen;
  Tensor transposed;
  Tensor tied;
  Tensor half;
};
TORCH_MODULE(Odd);

TEST_P(DdpTest, ParametersOfAnyShapeFrozenTiedAndUnused) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    Odd odd;
    Ddp ddp{ranks, *odd};
    for (int step = 0; step < 3; ++step) {
      odd->zero_grad();
      // 5 is used by nobody, 4 by rank 0 alone.
      odd(ranks.rank() == 0 ? std::vector<std::size_t>{0, 1, 2, 3, 4} : std::vector<std::size_t>{0, 1, 2, 3})
          .backward();
      const double n = ranks.size();
      EXPECT_FALSE(odd->parameter[5].grad().defined());
      EXPECT_FALSE(odd->frozen.grad().defined());
      EXPECT_TRUE(torch::allclose(odd->parameter[4].grad(), torch::full({1000}, 2 / n)));
      EXPECT_TRUE(torch::equal(odd->parameter[3].grad(), torch::full({17}, 2.0 + 5.0)));
      EXPECT_TRUE(torch::equal(odd->parameter[1].grad(), torch::full({1}, 2.0)));
      EXPECT_EQ(odd->parameter[0].grad().numel(), 0);
      EXPECT_TRUE(torch::equal(odd->transposed.grad(), 2 * odd->transposed));
      EXPECT_EQ(odd->transposed.grad().strides(), odd->transposed.strides());
      EXPECT_TRUE(torch::equal(odd->half.grad(), torch::ones({9}, torch::kBFloat16)));
      expect_alike(ranks, odd->parameter[4].grad());
    }
  });
}

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
    // Rank r has r + 1 batches of four: as one process that has in step k those of all that have one.
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
    // In step k rank k has none; alone, it has none in the first.
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
      // A gradient of nobody's samples is none.
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
    // The last finish() makes parameters alike, whatever they were; one more step shows what optimizers know.
    optimizer.zero_grad();
    copy(torch::ones({4, 7}, torch::kDouble)).pow(2).mean().backward();
    optimizer.step();
    expect_alike(ranks, values(*copy));
  });
}

TEST_P(DdpTest, BuffersAreThoseOfRank0) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    torch::nn::BatchNorm1d norm{7};
    norm->running_mean.fill_(static_cast<double>(ranks.rank()));
    Ddp ddp{ranks, *norm};
    EXPECT_EQ(norm->running_mean[0].item<float>(), 0);
    norm(numbers(ranks.rank(), {8, 7}, torch::kFloat)).sum().backward();
    expect_alike(ranks, norm->running_mean);
    expect_alike(ranks, norm->running_var);
    EXPECT_NE(norm->running_mean[0].item<float>(), 0);
  });
}

TEST_P(DdpTest, WhatIsGivenToReductionsIsKnownAndHalfOfItAsBf16) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    std::size_t exact = 0;
    for (const Wire wire : {Wire::kExact, Wire::kBf16}) {
      Mlp copy{64, 256, 64};
      fill(*copy, 3);
      Ddp ddp{ranks, *copy, {.bucket_bytes = 1, .wire = wire}};
      for (int step = 0; step < 2; ++step) {
        copy->zero_grad();
        copy(share(numbers(5, {16, 64}, torch::kFloat), ranks)).pow(2).sum().backward();
      }
      std::size_t bytes = 0;
      for (const auto& each : copy->parameters()) bytes += each.nbytes();
      if (wire == Wire::kExact) {
        exact = ddp.last_step().bytes;
        EXPECT_GE(exact, bytes);
        EXPECT_LE(exact, bytes + 64 * (copy->parameters().size() + ddp.last_step().operations));
        EXPECT_EQ(ddp.last_step().operations, copy->parameters().size());
      } else {
        EXPECT_EQ(ddp.last_step().bytes, exact / 2);
        Mlp reference{64, 256, 64};
        fill(*reference, 3);
        (reference(numbers(5, {16, 64}, torch::kFloat)).pow(2).sum() / static_cast<double>(ranks.size())).backward();
        const double scale = gradients(*reference).abs().max().item<double>();
        EXPECT_LE((gradients(*reference) - gradients(*copy)).abs().max().item<double>(), scale / 128);
        expect_alike(ranks, gradients(*copy));
      }
    }
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
      // Far from zero, where halves are coarse.
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
    EXPECT_EQ(own(torch::zeros({0, 5})).numel(), 0);  // on all ranks
    EXPECT_TRUE(torch::equal(own->running_mean, before));
    const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(own->clone());
    ASSERT_NE(copy, nullptr);
    own->running_mean.zero_();
    EXPECT_TRUE(torch::equal(copy->running_mean, before));
    EXPECT_EQ(copy->num_batches_tracked.item<std::int64_t>(), 3);
  });
}

/// Runs a module again in backward, as checkpointing does.
struct Again : torch::autograd::Function<Again> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, std::int64_t module) {
    context->save_for_backward({x});
    context->saved_data["module"] = module;
    return (*reinterpret_cast<Mlp*>(module))(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outer) {
    const torch::AutoGradMode with_grad{true};
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    (*reinterpret_cast<Mlp*>(context->saved_data["module"].toInt()))(x).backward(outer[0]);
    return {x.grad(), Tensor{}};
  }
};

TEST_P(DdpTest, BackwardsInsideOfABackwardBelongToIt) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    const auto forward = [](Mlp& module, const Tensor& x, bool again) {
      const auto through = [&](const Tensor& from) {
        return again ? Again::apply(from, reinterpret_cast<std::int64_t>(&module)) : module(from);
      };
      // The same module twice: its gradients come in two parts.
      return through(torch::tanh(through(x))).pow(2).mean();
    };
    auto [one, copy] = Twins{torch::kDouble, Mlp{5, 16, 5}, Mlp{5, 16, 5}};
    Ddp ddp{ranks, *copy, {.bucket_bytes = 1, .static_graph = true}};
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor x = numbers(step, {8, 5}, torch::kDouble);
      one->zero_grad();
      copy->zero_grad();
      forward(one, x, false).backward();
      forward(copy, share(x, ranks).clone().requires_grad_(), true).backward();
      EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-12, 1e-14)) << step;
      EXPECT_EQ(ddp.last_step().number, step + 1);
    }
  });
}

TEST(DdpErrorsTest, AGradientThatComesTwiceAsksForStaticGraph) {
  on_ranks(2, [](Communicator& ranks) {
    Mlp copy{5, 16, 5};
    Ddp ddp{ranks, *copy, {.bucket_bytes = 1}};
    const Tensor x = torch::ones({2, 5}).requires_grad_();
    const auto once = Again::apply(x, reinterpret_cast<std::int64_t>(&copy));
    const auto twice = Again::apply(once, reinterpret_cast<std::int64_t>(&copy));
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { twice.sum().backward(); }), "static_graph");
  });
}

TEST(DdpErrorsTest, DifferentModulesAreToldOnAllRanks) {
  on_ranks(3, [](Communicator& ranks) {
    torch::nn::Linear linear{4, ranks.rank() == 2 ? 6 : 5};
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp ddp(ranks, *linear); }),
                "rank 0 has \"weight\" Float [5, 4] where rank 2 has \"weight\" Float [6, 4]");
    torch::nn::Linear other{torch::nn::LinearOptions(4, 5).bias(ranks.rank() == 1)};
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp ddp(ranks, *other); }), "nothing more");
    torch::nn::Linear third{4, 5};
    if (ranks.rank() == 1) third->weight.requires_grad_(false);
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp ddp(ranks, *third); }), "frozen");
    torch::nn::Linear fourth{4, 5};
    if (ranks.rank() == 1) fourth->to(torch::kDouble);
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp ddp(ranks, *fourth); }), "\"weight\" Double [5, 4]");
    torch::nn::Sequential fifth;
    fifth->push_back(ranks.rank() == 2 ? "last" : "first", torch::nn::Linear{4, 5});
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp ddp(ranks, *fifth); }), "where rank 2 has \"last.weight\"");
  });
}

TEST(DdpErrorsTest, WhatLiesInAnotherOrderOrElsewhereIsRefused) {
  on_ranks(2, [](Communicator& ranks) {
    torch::nn::Conv2d convolution{torch::nn::Conv2dOptions(3, 4, 3)};
    if (ranks.rank() == 1) {
      convolution->weight.set_data(convolution->weight.contiguous(at::MemoryFormat::ChannelsLast));
    }
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp(ranks, *convolution); }), "ranks have different modules");
    torch::nn::Module elsewhere;
    elsewhere.register_parameter("weight", torch::empty({2}, torch::kMeta));
    EXPECT_SAYS(message_of<Exception>([&] { Ddp(ranks, elsewhere); }), "\"weight\" is on meta");
  });
}

TEST(DdpErrorsTest, ANumberThatIsNoneIsFound) {
  on_ranks(3, [](Communicator& ranks) {
    Mlp copy;
    fill(*copy, 3);
    Ddp ddp{ranks, *copy, {.check_numbers = true}};
    Tensor x = torch::ones({2, 7});
    copy(x).sum().backward();
    bool breaks = ranks.rank() == 1;
    copy->second->weight.register_hook([&](const Tensor& gradient) {
      Tensor with_nan = gradient.clone();
      if (std::exchange(breaks, false)) with_nan[0][0] = std::numeric_limits<float>::quiet_NaN();
      return with_nan;
    });
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { copy(x).sum().backward(); }),
                "in step 2 the gradient of \"second.weight\" on rank 1 has elements that are no finite numbers");
    copy->zero_grad();
    copy(x * (1.0 + ranks.rank())).sum().backward();
    expect_alike(ranks, gradients(*copy));
    EXPECT_TRUE(torch::isfinite(gradients(*copy)).all().item<bool>());
    EXPECT_EQ(ddp.last_step().number, 2U);
  });
}

TEST(DdpErrorsTest, WhatARankThrowsInBackwardIsItsOwnAndTheNextStepGoesOn) {
  on_ranks(2, [](Communicator& ranks) {
    Twins twins;
    Mlp& one = twins.one;
    Mlp& copy = twins.copy;
    Ddp ddp{ranks, *copy};
    const Tensor x = numbers(1, {8, 7}, torch::kDouble);
    bool throws = true;
    // Before any gradient has come, on all ranks.
    const auto loss = [&] {
      Tensor y = copy(share(x, ranks));
      y.register_hook([&](const Tensor& gradient) {
        if (std::exchange(throws, false)) throw std::runtime_error{"not now"};
        return gradient;
      });
      return y.pow(2).mean();
    };
    EXPECT_ANY_THROW(loss().backward());
    copy->zero_grad();
    loss().backward();
    one(x).pow(2).mean().backward();
    EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-12, 1e-14));
  });
}

/// When the first bucket is on its way, on all ranks.
TEST(DdpErrorsTest, WhatABackwardThatThrewHadBegunDoesNotMeetTheNext) {
  std::barrier all_have_thrown{2};
  on_ranks(2, [&](Communicator& ranks) {
    auto [one, copy] = Twins{};
    Ddp ddp{ranks, *copy, {.bucket_bytes = 1}};
    const Tensor x = numbers(1, {8, 7}, torch::kDouble);
    copy(share(x, ranks)).pow(2).mean().backward();
    int come = 0;
    for (const Tensor& each : copy->parameters()) {
      each.register_hook([&](const Tensor& gradient) {
        if (++come == 2) throw std::runtime_error{"not now"};
        return gradient;
      });
    }
    EXPECT_ANY_THROW((100 * copy(share(x, ranks))).pow(2).mean().backward());
    all_have_thrown.arrive_and_wait();
    for (int step = 0; step < 3; ++step) {
      one->zero_grad();
      copy->zero_grad();
      one(x).pow(2).mean().backward();
      copy(share(x, ranks)).pow(2).mean().backward();
      EXPECT_TRUE(torch::allclose(gradients(*one), gradients(*copy), 1e-12, 1e-14));
    }
  });
}

TEST(DdpErrorsTest, ARankThatDiesInBackwardIsNamedToTheOthers) {
  on_ranks(3, [](Communicator& ranks) {
    Mlp copy;
    Ddp ddp{ranks, *copy};
    copy(torch::ones({2, 7})).sum().backward();
    if (ranks.rank() == 1) {
      ranks.abort("its data is gone");
      return;
    }
    EXPECT_SAYS(message_of<Cancelled>([&] {
                  for (int i = 0; i < 3; ++i) copy(torch::ones({2, 7})).sum().backward();
                }),
                "rank 1 has given up: its data is gone");
  });
}

TEST(DdpErrorsTest, AModuleIsItsOwnAgainAfterwards) {
  on_ranks(2, [](Communicator& ranks) {
    torch::nn::Linear linear{1, 1};
    {
      const Ddp ddp{ranks, *linear};
      linear(torch::ones({1, 1})).sum().backward();
    }
    // Whoever still has the gradient has it.
    const Tensor gradient = linear->weight.grad();
    EXPECT_EQ(gradient.item<float>(), 1);
    linear->zero_grad();
    EXPECT_EQ(gradient.item<float>(), 1);
    (linear(torch::ones({1, 1})) * static_cast<double>(ranks.rank())).sum().backward();
    EXPECT_EQ(linear->weight.grad().item<float>(), static_cast<float>(ranks.rank()));
  });
}

}  // namespace
}  // namespace pharos::ml
