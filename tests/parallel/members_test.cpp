// Members of a group of actors that keep a sharded module from call to call.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "nets.hpp"

namespace pharos::ml {
namespace {

constexpr std::uint32_t kRanks = 2;
const Rule kRule = AdamW{.lr = 1e-2};

class Member {
 public:
  void begin(int sharding) {
    torch::set_num_threads(1);
    sharded_.emplace(*net_.module, communicator(), static_cast<Sharding>(sharding), ShardOptions{});
    optimizer_.emplace(sharded_->groups(0.1), kRule);
  }
  void step(std::uint64_t number) {
    net_.loss(number * kRanks + communicator().rank()).backward();
    optimizer_->step();
    optimizer_->zero_grad();
  }
  double loss(std::uint64_t batch) const {
    const torch::NoGradGuard no_grad;
    const double loss = net_.loss(batch).item<double>();
    sharded_->check();
    return loss;
  }

 private:
  const Net net_ = encoder();
  std::optional<Sharded> sharded_;
  std::optional<Optimizer> optimizer_;
};

class ShardedMembers : public cluster::ClusterTest {};

/// The calls of a member run on different threads, and the callers are on different threads too.
TEST_F(ShardedMembers, LearnWhatOneProcessDoes) {
  torch::set_num_threads(1);
  Runtime runtime;
  for (const Sharding sharding : {Sharding::kParameters, Sharding::kGradients, Sharding::kOptimizer}) {
    const auto group = runtime.spawn_group<Member>({.size = kRanks, .member = {.cpus = 0}});
    connect(group);
    group.gather<&Member::begin>(static_cast<int>(sharding)).get();
    const Net alone = encoder();
    Optimizer reference{groups_of(*alone.module, 0.1), kRule};
    for (std::uint64_t step = 0; step < 10; ++step) {
      const auto call = [&] {
        group.gather<&Member::step>(step).get();
        return group.gather<&Member::loss>(step).get();
      };
      const std::vector<double> losses = std::async(std::launch::async, call).get();
      for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
        (alone.loss(step * kRanks + rank) / kRanks).backward();
      }
      reference.step();
      reference.zero_grad();
      const torch::NoGradGuard no_grad;
      const double wanted = alone.loss(step).item<double>();
      for (const double loss : losses) EXPECT_NEAR(loss, wanted, 1e-9) << "after step " << step;
    }
  }
}

}  // namespace
}  // namespace pharos::ml
