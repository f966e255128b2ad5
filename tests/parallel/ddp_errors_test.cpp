// Ranks with wrong modules or numbers, ranks that throw, and ranks that die.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <barrier>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>

#include "says.hpp"
#include "twins.hpp"

namespace pharos::ml {
namespace {

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
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Ddp(ranks, elsewhere); }), "\"weight\" is on meta");
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
                "in step 2 the gradient of \"second.weight\" on rank 1 has elements that are not finite");
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
    // The hook throws on all ranks before any gradient has come.
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

/// The backward throws on all ranks while the first bucket is being reduced.
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
    // A tensor that shares the gradient's memory keeps its value.
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
