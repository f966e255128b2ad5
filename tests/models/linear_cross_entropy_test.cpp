// The loss of an output layer, a few rows at a time, beside libtorch's loss of all scores.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <pharos/ml/linear_cross_entropy.hpp>
#include <pharos/ml/precision.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

constexpr std::int64_t kWords = 37;
constexpr std::int64_t kWidth = 8;

struct Given {
  explicit Given(torch::Dtype type)
      : x{torch::randn({3, 5, kWidth}, type).requires_grad_()},
        weight{torch::randn({kWords, kWidth}, type).requires_grad_()},
        targets{torch::randint(kWords, {3, 5}, torch::kLong)} {}

  Tensor plain() const {
    return torch::nll_loss(torch::log_softmax(torch::linear(x, weight).flatten(0, 1), 1, wide()), targets.flatten());
  }
  torch::Dtype wide() const { return x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat; }
  /// The loss, and the gradients of three times the loss.
  std::vector<Tensor> of(const Tensor& loss) const {
    x.mutable_grad().reset();
    weight.mutable_grad().reset();
    (loss * 3).backward();
    return {loss.detach(), x.grad(), weight.grad()};
  }

  const Tensor x;
  const Tensor weight;
  const Tensor targets;
};

void expect_near(const std::vector<Tensor>& all, const std::vector<Tensor>& expected, double share) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].scalar_type(), expected[i].scalar_type()) << i;
    ASSERT_EQ(all[i].sizes(), expected[i].sizes()) << i;
    const Tensor should = expected[i].to(torch::kDouble);
    const double most = should.abs().max().item<double>();
    EXPECT_LE((all[i].to(torch::kDouble) - should).abs().max().item<double>(), share * most) << i;
  }
}

class LinearCrossEntropy : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(1); }
};

TEST_F(LinearCrossEntropy, IsThatOfAllScoresWhateverTheRowsAtOnce) {
  for (const torch::Dtype type : {torch::kDouble, torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const Given given{type};
    const auto expected = given.of(given.plain());
    const double share = type == torch::kDouble ? 1e-12 : type == torch::kFloat ? 1e-5 : 2e-2;
    for (const std::int64_t rows : {0, 1, 4, 15, 100}) {
      SCOPED_TRACE(std::string{c10::toString(type)} + ", " + std::to_string(rows) + " rows at once");
      const auto loss = [&] {
        return linear_cross_entropy(given.x, given.weight, given.targets, {.rows_at_once = rows});
      };
      expect_near(given.of(loss()), expected, share);
    }
  }
}

TEST_F(LinearCrossEntropy, RowsThatAreIgnoredDoNotCount) {
  Given given{torch::kDouble};
  given.targets[0][1] = -100;
  given.targets[2][4] = -100;
  const auto expected = given.of(given.plain());
  expect_near(given.of(linear_cross_entropy(given.x, given.weight, given.targets, {.rows_at_once = 4})), expected,
              1e-12);
  EXPECT_EQ(expected[1][0][1].abs().max().item<double>(), 0);
  given.targets.fill_(-100);
  EXPECT_TRUE(std::isnan(linear_cross_entropy(given.x, given.weight, given.targets).item<double>()));
}

TEST_F(LinearCrossEntropy, ComputesWhereOneOfThemLearns) {
  const Given given{torch::kDouble};
  const auto expected = given.of(given.plain());
  const Tensor x = given.x.detach().clone().requires_grad_();
  linear_cross_entropy(x, given.weight.detach(), given.targets).backward();
  expect_near({x.grad() * 3}, {expected[1]}, 1e-12);
  const Tensor weight = given.weight.detach().clone().requires_grad_();
  linear_cross_entropy(given.x.detach(), weight, given.targets).backward();
  expect_near({weight.grad() * 3}, {expected[2]}, 1e-12);
  const torch::NoGradGuard no_grad;
  const Tensor loss = linear_cross_entropy(given.x, given.weight, given.targets);
  EXPECT_FALSE(loss.requires_grad());
  expect_near({loss}, {expected[0]}, 1e-12);
}

TEST_F(LinearCrossEntropy, ComputesInThePrecisionOfAutocast) {
  const Given given{torch::kFloat};
  const auto with = [&](const auto& loss) {
    Tensor result;
    {
      const Autocast autocast{at::kCPU, Precision::kBf16};
      result = loss();
    }
    return given.of(result);
  };
  const auto expected = with([&] { return given.plain(); });
  const auto all = with([&] { return linear_cross_entropy(given.x, given.weight, given.targets); });
  expect_near(all, expected, 2e-2);
  const auto floats = given.of(linear_cross_entropy(given.x, given.weight, given.targets));
  EXPECT_FALSE(torch::equal(all[0], floats[0])) << "the scores were not shortened";
}

TEST_F(LinearCrossEntropy, SaysWhatItCannotDo) {
  const Given given{torch::kDouble};
  const auto loss = [&] { return linear_cross_entropy(given.x, given.weight, given.targets); };
  EXPECT_SAYS(message_of<c10::Error>([&] {
                torch::autograd::grad({loss()}, {given.x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
              }),
              "has no second derivative");
  EXPECT_SAYS(message_of<c10::Error>([&] { linear_cross_entropy(given.x, given.weight.t(), given.targets); }),
              "as many columns");
  EXPECT_SAYS(message_of<c10::Error>([&] { linear_cross_entropy(given.x, given.weight, given.targets[0]); }),
              "5 targets for 15 rows");
}

}  // namespace
}  // namespace pharos::ml
