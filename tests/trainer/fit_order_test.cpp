// The order in which a learner gets its samples.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::fitting {

constexpr std::uint64_t kSamples = 11;
constexpr std::uint64_t kSeed = 7;

/// Writes down the samples that its rank learns from, in their order.
struct Noting : Learner {
  Noting(const std::string& folder, std::uint64_t order_of) : folder_{folder}, order_of_{order_of} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({kSamples, 1}))}}); }
  std::optional<Order> training_order(std::uint64_t) override { return Order::as_torch(order_of_, context().seed()); }
  at::Tensor training_step(const Batch& batch) override {
    std::ofstream file{std::filesystem::path{folder_} / std::to_string(context().rank()), std::ios::app};
    for (const std::uint64_t each : batch.numbers) file << each << '\n';
    return net_->forward(tensor_of(batch["x"])).mean();
  }

 private:
  const std::string folder_;
  const std::uint64_t order_of_;
  torch::nn::Linear net_{1, 1};
};

namespace {

class FitOrderTest : public cluster::ClusterTest {
 protected:
  static constexpr std::uint32_t kRanks = 2;
  static TrainerOptions options() {
    return {.scaling = {.workers = kRanks, .cpus_per_worker = 0}, .seed = kSeed, .progress = false};
  }

  const TemporaryFolder folder_;
};

TEST_F(FitOrderTest, IsThatOfPyTorchsSamplerWhereALearnerAsksForIt) {
  constexpr std::uint64_t kEpochs = 2;
  Runtime runtime;
  Trainer trainer{runtime, options()};
  fit<Noting>(trainer, {.batch = 2, .epochs = kEpochs, .tail = Tail::kPad}, folder_.path().string(), kSamples);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<std::uint64_t> expected;
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Order::Epoch order = Order::as_torch(kSamples, kSeed).epoch(epoch);
      // Eleven samples are padded to twelve with the first one.
      for (std::uint64_t place = rank; place < kSamples + 1; place += kRanks)
        expected.push_back(order[place % kSamples]);
    }
    std::vector<std::uint64_t> seen;
    std::ifstream file{folder_.path() / std::to_string(rank)};
    for (std::uint64_t each = 0; file >> each;) seen.push_back(each);
    EXPECT_EQ(seen, expected) << "rank " << rank;
  }
}

TEST_F(FitOrderTest, OfAnotherNumberOfSamplesIsRefused) {
  Runtime runtime;
  Trainer trainer{runtime, options()};
  EXPECT_SAYS(
      message_of<InvalidArgument>([&] { fit<Noting>(trainer, {.epochs = 1}, folder_.path().string(), kSamples + 1); }),
      "the order is of 12 samples, and the dataset has 11");
}

}  // namespace
}  // namespace pharos::ml::fitting
