#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>

#include "rank_threads.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

constexpr std::int64_t kRows = 48;
constexpr std::int64_t kColumns = 40;

Tensor numbers(std::uint64_t seed, std::vector<std::int64_t> sizes, torch::Dtype dtype) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, random, torch::TensorOptions{}.dtype(dtype));
}

/// A module whose gradient a test chooses: the loss is the sum of weight times the given gradient.
struct MatrixImpl : torch::nn::Module {
  explicit MatrixImpl(torch::Dtype dtype = torch::kDouble)
      : weight{register_parameter("weight", torch::zeros({kRows, kColumns}, dtype))},
        bias{register_parameter("bias", torch::zeros({kRows}, dtype))} {}
  void backward(const Tensor& gradient) {
    zero_grad();
    ((weight * gradient).sum() + (bias * gradient.select(1, 0)).sum()).backward();
  }
  Tensor weight;
  Tensor bias;
};
TORCH_MODULE(Matrix);

double distance(const Tensor& a, const Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

void expect_alike(Communicator& ranks, const Tensor& own) {
  const Tensor bits = own.contiguous().flatten();
  std::vector<double> all(static_cast<std::size_t>(bits.numel()) * ranks.size());
  ranks.all_gather(std::span<const double>{bits.data_ptr<double>(), static_cast<std::size_t>(bits.numel())},
                   std::span{all});
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank) * bits.numel();
    EXPECT_TRUE(std::equal(begin, begin + bits.numel(), bits.data_ptr<double>())) << "rank " << rank;
  }
}

/// A module with PowerSgd, after the first step, which is always exact.
struct Trained {
  Trained(Communicator& ranks, std::uint32_t rows, std::size_t bucket_bytes = std::size_t{1} << 20)
      : ddp{ranks,
            *module,
            {.bucket_bytes = bucket_bytes, .wire = Wire::kPowerSgd, .power_sgd = {.rank = rows, .exact_steps = 1}}} {
    module->backward(numbers(ranks.rank(), {kRows, kColumns}, torch::kDouble));
  }
  const Tensor& step(const Tensor& gradient) {
    module->backward(gradient);
    return module->weight.grad();
  }

  Matrix module;
  Ddp ddp;
};

class PowerSgdTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  void on_ranks(const Rank& body) { run_threads(GetParam(), {.timeout = std::chrono::seconds{20}}, body); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, PowerSgdTest, testing::Values(1U, 2U, 3U));

// A gradient that is a product of two thin matrices arrives exactly. A parameter that is not a matrix is sent as it is.
TEST_P(PowerSgdTest, AGradientOfThatRankArrivesAsItIs) {
  on_ranks([](Communicator& ranks) {
    Trained trained{ranks, 6};
    const auto factors = [](std::uint64_t rank) {
      return torch::mm(numbers(10 + rank, {kRows, 2}, torch::kDouble),
                       numbers(20 + rank, {2, kColumns}, torch::kDouble));
    };
    Tensor mean = torch::zeros({kRows, kColumns}, torch::kDouble);
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) mean += factors(rank) / ranks.size();
    EXPECT_LE(distance(trained.step(factors(ranks.rank())), mean), 1e-10);
    EXPECT_LE(distance(trained.module->bias.grad(), mean.select(1, 0)), 1e-14);
    expect_alike(ranks, trained.module->weight.grad());
  });
}

TEST_P(PowerSgdTest, FarLessIsSentThanThereIs) {
  on_ranks([](Communicator& ranks) {
    Trained trained{ranks, 2};
    const std::size_t exact = trained.ddp.last_step().bytes;
    EXPECT_GE(exact, kRows * kColumns * sizeof(double));
    trained.step(numbers(ranks.rank(), {kRows, kColumns}, torch::kDouble));
    const std::size_t thin = (2 * (kRows + kColumns) + kRows) * sizeof(double);
    EXPECT_GE(trained.ddp.last_step().bytes, thin);
    EXPECT_LE(trained.ddp.last_step().bytes, thin + 4 * 64);
  });
}

// The error of a compressed step is added to later steps: the sum over many steps of a constant gradient comes close to
// the exact sum.
TEST_P(PowerSgdTest, TheMeanOfManyStepsIsTheGradient) {
  on_ranks([](Communicator& ranks) {
    Trained trained{ranks, 1};
    const Tensor own = numbers(30 + ranks.rank(), {kRows, kColumns}, torch::kDouble);
    Tensor mean = own.clone();
    ranks.all_reduce(std::span{mean.data_ptr<double>(), static_cast<std::size_t>(mean.numel())}, Reduction::kMean);
    Tensor sum = torch::zeros_like(own);
    double first = 0;
    constexpr int kSteps = 400;
    for (int step = 1; step <= kSteps; ++step) {
      sum += trained.step(own);
      if (step == 1) first = distance(sum, mean);
    }
    EXPECT_GE(first, 0.5);  // the gradient has full rank, and one row and column approximate it badly
    EXPECT_LE(distance(sum / kSteps, mean), first / 5);
    expect_alike(ranks, sum);
  });
}

TEST_P(PowerSgdTest, BucketsOfSeveralMatricesKeepThemApart) {
  on_ranks([](Communicator& ranks) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 20}) {
      torch::nn::Sequential module{torch::nn::Linear(30, 40), torch::nn::Linear(40, 50), torch::nn::Linear(50, 60)};
      module->to(torch::kDouble);
      {
        const torch::NoGradGuard no_grad;
        std::uint64_t seed = 0;
        for (Tensor& each : module->parameters()) each.copy_(numbers(++seed, each.sizes().vec(), torch::kDouble));
      }
      const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(module->clone());
      Ddp ddp{ranks,
              *copy,
              {.bucket_bytes = bucket_bytes, .wire = Wire::kPowerSgd, .power_sgd = {.rank = 4, .exact_steps = 1}}};
      for (std::uint64_t step = 0; step < 3; ++step) {
        // With one sample for each rank, the rank of the gradient is at most the number of ranks.
        const Tensor x = numbers(step, {ranks.size(), 30}, torch::kDouble);
        module->zero_grad();
        module->forward(x).pow(2).mean().backward();
        copy->zero_grad();
        copy->forward(x[ranks.rank()].unsqueeze(0)).pow(2).mean().backward();
        for (std::size_t i = 0; i < copy->parameters().size(); ++i) {
          EXPECT_LE(distance(copy->parameters()[i].grad(), module->parameters()[i].grad()), 1e-9)
              << "parameter " << i << ", step " << step << ", buckets of " << bucket_bytes;
        }
      }
    }
  });
}

// A matrix beside a parameter without dimensions.
struct ScaledModule : torch::nn::Module {
  ScaledModule()
      : scale{register_parameter("scale", torch::ones({}, torch::kDouble))},
        weight{register_parameter("weight", torch::zeros({kRows, kColumns}, torch::kDouble))} {}
  Tensor scale;
  Tensor weight;
};

TEST_P(PowerSgdTest, AParameterWithoutDimensionsGoesAsItIs) {
  on_ranks([](Communicator& ranks) {
    const auto module = std::make_shared<ScaledModule>();
    Ddp ddp{ranks, *module, {.wire = Wire::kPowerSgd, .power_sgd = {.rank = 2, .exact_steps = 1}}};
    for (int step = 0; step < 3; ++step) {
      module->zero_grad();
      (module->scale * (3 + ranks.rank()) + module->weight.sum()).sum().backward();
      EXPECT_EQ(module->scale.grad().item<double>(), 3 + (ranks.size() - 1) / 2.0);
    }
    EXPECT_SAYS(
        message_of<InvalidArgument>([&] { Ddp(ranks, *module, {.wire = Wire::kPowerSgd, .power_sgd = {.rank = 0}}); }),
        "PowerSgd::rank is 0");
  });
}

// The error that is kept for a matrix waits while steps do not use the matrix, and is added in the next step that does.
TEST_P(PowerSgdTest, AStepThatDoesNotUseAMatrixLosesNothingOfIt) {
  on_ranks([](Communicator& ranks) {
    const Tensor own = numbers(30 + ranks.rank(), {kRows, kColumns}, torch::kDouble);
    const auto sum_of_steps = [&](bool rests) {
      const auto module = std::make_shared<ScaledModule>();
      Ddp ddp{ranks, *module, {.wire = Wire::kPowerSgd, .power_sgd = {.rank = 1, .exact_steps = 1}}};
      Tensor sum = torch::zeros_like(own);
      constexpr int kSteps = 200;
      for (int step = 0; step < (rests ? 2 : 1) * kSteps; ++step) {
        module->zero_grad();
        const bool uses = !rests || step % 2 == 0;
        (uses ? module->scale + (module->weight * own).sum() : module->scale * 1).backward();
        EXPECT_EQ(module->weight.grad().defined(), uses);
        if (uses) sum += module->weight.grad() / kSteps;
      }
      return sum;
    };
    Tensor mean = own.clone();
    ranks.all_reduce(std::span{mean.data_ptr<double>(), static_cast<std::size_t>(mean.numel())}, Reduction::kMean);
    const double with_rests = distance(sum_of_steps(true), mean);
    EXPECT_LE(with_rests, 1.5 * distance(sum_of_steps(false), mean));
  });
}
// A gradient that is not finite makes a GradScaler skip the step, and it must leave no trace in later steps.

TEST_P(PowerSgdTest, AGradientThatIsNoNumberIsForgotten) {
  on_ranks([](Communicator& ranks) {
    Trained trained{ranks, 4};
    const Tensor own = numbers(40 + ranks.rank(), {kRows, kColumns}, torch::kDouble);
    Tensor broken = own.clone();
    if (ranks.rank() == 0) broken[3][5] = std::numeric_limits<double>::infinity();
    EXPECT_FALSE(torch::isfinite(trained.step(broken)).all().item<bool>());
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(torch::isfinite(trained.step(own)).all().item<bool>()) << "step " << step;
      EXPECT_GT(trained.module->weight.grad().norm().item<double>(), 0) << "step " << step;
    }
  });
}

TEST_P(PowerSgdTest, AGradientThatWasZeroIsSentOnceItIsNot) {
  on_ranks([](Communicator& ranks) {
    Trained trained{ranks, 4};
    const Tensor none = torch::zeros({kRows, kColumns}, torch::kDouble);
    for (int step = 0; step < 2; ++step) EXPECT_EQ(trained.step(none).norm().item<double>(), 0);
    const Tensor outer = torch::outer(numbers(1, {kRows}, torch::kDouble), numbers(2, {kColumns}, torch::kDouble));
    EXPECT_LE(distance(trained.step(outer), outer), 1e-10);
  });
}

// Training tolerates that a part of each gradient arrives some steps later.
TEST_P(PowerSgdTest, TrainingGetsAsFarAsWithExactGradients) {
  on_ranks([](Communicator& ranks) {
    const Tensor wanted = numbers(50, {64, 64}, torch::kFloat) / 8;
    const auto train = [&](const DdpOptions& options) {
      torch::nn::Linear model{64, 64};
      {
        const torch::NoGradGuard no_grad;
        model->weight.zero_();
        model->bias.zero_();
      }
      Ddp ddp{ranks, *model, options};
      torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{1.0}};
      double loss = 0;
      for (std::uint64_t step = 0; step < 600; ++step) {
        const Tensor x = numbers(100 * (step + 1) + ranks.rank(), {32, 64}, torch::kFloat);
        optimizer.zero_grad();
        const Tensor off = (model(x) - torch::mm(x, wanted.t())).pow(2).mean();
        off.backward();
        optimizer.step();
        loss = off.item<double>();
      }
      ranks.all_reduce(std::span{&loss, 1}, Reduction::kMean);
      return loss;
    };
    EXPECT_LE(train({}), 1e-3);
    EXPECT_LE(train({.wire = Wire::kPowerSgd, .power_sgd = {.rank = 4, .exact_steps = 10}}), 1e-3);
  });
}

}  // namespace
}  // namespace pharos::ml
