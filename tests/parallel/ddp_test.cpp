// Ranks train as one process would on the whole batch.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/optimizer.hpp>

#include "says.hpp"
#include "twins.hpp"

namespace pharos::ml {
namespace {

INSTANTIATE_TEST_SUITE_P(Of, DdpTest,
                         testing::Values(Ranks{1}, Ranks{2}, Ranks{4}, Ranks{2, Reach::kTcp},
                                         Ranks{4, Reach::kMachines}),
                         [](const auto& chosen) {
                           const char* const reach = chosen.param.reach == Reach::kMemory ? "InMemory"
                                                     : chosen.param.reach == Reach::kTcp  ? "OverTcp"
                                                                                          : "OnMachines";
                           return std::to_string(chosen.param.count) + reach;
                         });

std::vector<const void*> places_of_gradients(const torch::nn::Module& module) {
  std::vector<const void*> places;
  for (const auto& each : module.parameters()) places.push_back(each.grad().data_ptr());
  return places;
}

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
    torch::nn::Sequential wide;  // four layers of 1 MiB of weights and 2 KiB of bias
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
      // Addresses of the gradients in the buckets, which do not move after the first step.
      std::vector<const void*> places;
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

/// The second layer is used first at rank 0.
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
    step(ranks.rank() == 0);  // the other ranks use the layers in the other order
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

/// Parameters of many kinds and shapes, of which a forward uses some.
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

void expect_gradients_of_odd(Communicator& ranks, Odd& odd) {
  for (int step = 0; step < 3; ++step) {
    odd->zero_grad();
    // No rank uses parameter 5, and only rank 0 uses parameter 4.
    odd(ranks.rank() == 0 ? std::vector<std::size_t>{0, 1, 2, 3, 4} : std::vector<std::size_t>{0, 1, 2, 3}).backward();
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
}

TEST_P(DdpTest, ParametersOfAnyShapeFrozenTiedAndUnused) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    Odd odd;
    Ddp ddp{ranks, *odd};
    expect_gradients_of_odd(ranks, odd);
  });
}

// With a second communicator for data, as for GPUs: the host's communicator carries the marks that say which gradients
// count.
TEST_P(DdpTest, ParametersOfAnyShapeWithMarksOnTheHost) {
  on_ranks(GetParam(), [](Communicator& ranks) {
    Odd odd;
    Ddp ddp{ranks, /*gpus=*/ranks, *odd};
    expect_gradients_of_odd(ranks, odd);
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

/// Runs a module again in backward, as activation checkpointing does.
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
      // The same module is used twice, so its gradients come in two parts.
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

}  // namespace
}  // namespace pharos::ml
