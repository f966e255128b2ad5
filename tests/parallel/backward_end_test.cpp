// The end of a backward comes once, when the outermost backward has ended.

#include "parallel/backward_end.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

#include <pharos/ml/recompute.hpp>

namespace pharos::ml {
namespace {

using torch::Tensor;

/// A weight whose gradient asks for the end of its backward.
class EndOfBackward : public testing::Test {
 protected:
  EndOfBackward() {
    weight_.register_hook([this](const Tensor&) { at_end_of_backward([this] { ++ended_; }, [this] { ++failed_; }); });
  }
  /// Uses the weight in a part that is computed again in backward, so that its gradient comes in an inner backward.
  Tensor again(const Tensor& x) {
    return checkpoint([this](const Tensor& in) { return in * weight_; }, x);
  }

  const Tensor weight_ = torch::ones({3}).requires_grad_();
  const Tensor x_ = torch::ones({3}).requires_grad_();
  int ended_ = 0;
  int failed_ = 0;
};

TEST_F(EndOfBackward, ComesOnceAfterTheOuterBackward) {
  int ended_at_input = -1;
  x_.register_hook([&](const Tensor&) { ended_at_input = ended_; });
  for (int step = 1; step <= 3; ++step) {
    again(again(x_) * 2).sum().backward();
    EXPECT_EQ(ended_at_input, 2 * (step - 1));
    EXPECT_EQ(ended_, 2 * step) << "the weight's gradient comes twice in a step";
  }
  EXPECT_EQ(failed_, 0);
}

TEST_F(EndOfBackward, ComesWhereOnlyTheGradientOfAnInputIsAskedFor) {
  for (int step = 1; step <= 3; ++step) {
    torch::autograd::grad({again(x_).sum()}, {x_});
    EXPECT_EQ(ended_, 2 * step - 1);
    torch::autograd::grad({again(x_ * 2).sum()}, {x_});
    EXPECT_EQ(ended_, 2 * step);
  }
  EXPECT_EQ(failed_, 0);
}

TEST_F(EndOfBackward, IsAFailureWhereTheOuterBackwardThrowsLater) {
  {
    const Tensor between = x_ * 2;
    between.register_hook([](const Tensor&) { throw std::runtime_error{"no gradient"}; });
    const Tensor loss = again(between).sum();
    EXPECT_THROW(loss.backward(), std::runtime_error);
  }
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(failed_, 1);
  again(x_).sum().backward();
  EXPECT_EQ(ended_, 1);
}

}  // namespace
}  // namespace pharos::ml
