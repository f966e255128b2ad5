// Measures over many batches and all ranks are those of all samples at once.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/measures.hpp>

#include "rank_threads.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

using torch::Tensor;

constexpr std::int64_t kSamples = 101;  // no number of ranks below divides it
constexpr std::int64_t kClasses = 5;

Tensor random(std::uint64_t seed, const std::vector<std::int64_t>& sizes) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), torch::kDouble);
}
Tensor random_classes(std::int64_t classes) {
  return torch::randint(classes, {kSamples}, at::make_generator<at::CPUGeneratorImpl>(7), torch::kLong);
}

/// Gives each rank every n-th sample, in batches of 7; measures(first, last) adds the samples of a batch.
template <class Add>
void in_batches(const Communicator& ranks, const Add& add) {
  const Tensor own = torch::arange(std::int64_t{ranks.rank()}, kSamples, std::int64_t{ranks.size()});
  for (const Tensor& batch : own.split(7)) add(batch);
}

class MeasuresTest : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MeasuresTest, testing::Values(1, 2, 3));

TEST_P(MeasuresTest, AccuracyCountsTheBestScores) {
  const Tensor scores = random(1, {kSamples, kClasses});
  const Tensor classes = random_classes(kClasses);
  std::int64_t hits = 0;
  std::int64_t hits_of_3 = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const auto higher = scores[i].gt(scores[i][classes[i].item<std::int64_t>()]).sum().item<std::int64_t>();
    hits += higher == 0 ? 1 : 0;
    hits_of_3 += higher < 3 ? 1 : 0;
  }
  run_threads(GetParam(), {}, [&](Communicator& ranks) {
    Accuracy accuracy;
    Accuracy top_3{3};
    in_batches(ranks, [&](const Tensor& batch) {
      accuracy.add(scores.index({batch}), classes.index({batch}));
      top_3.add(scores.index({batch}), classes.index({batch}));
    });
    EXPECT_DOUBLE_EQ(accuracy.value(ranks), static_cast<double>(hits) / kSamples);
    EXPECT_DOUBLE_EQ(top_3.value(ranks), static_cast<double>(hits_of_3) / kSamples);
    accuracy.reset();
    EXPECT_TRUE(std::isnan(accuracy.value(ranks)));
  });
}

TEST_P(MeasuresTest, ErrorsAndPerplexitiesAreMeansOfAllElements) {
  const Tensor logits = random(2, {kSamples, 3, kClasses});
  Tensor tokens = torch::randint(kClasses, {kSamples, 3}, at::make_generator<at::CPUGeneratorImpl>(8), torch::kLong);
  tokens.index_put_({torch::arange(0, kSamples, 4), 1}, -100);  // padding
  const double perplexity = std::exp(
      torch::cross_entropy_loss(logits.flatten(0, 1), tokens.flatten(), {}, at::Reduction::Mean, -100).item<double>());
  const Tensor targets = random(3, {kSamples, 3, kClasses});
  run_threads(GetParam(), {}, [&](Communicator& ranks) {
    Perplexity ours;
    MeanAbsoluteError error;
    in_batches(ranks, [&](const Tensor& batch) {
      ours.add(logits.index({batch}), tokens.index({batch}));
      error.add(logits.index({batch}), targets.index({batch}));
    });
    EXPECT_NEAR(ours.value(ranks), perplexity, 1e-12 * perplexity);
    EXPECT_NEAR(error.value(ranks), (logits - targets).abs().mean().item<double>(), 1e-12);
  });
}

TEST_P(MeasuresTest, ClassesAreConfusedAsCounted) {
  const Tensor scores = random(4, {kSamples, kClasses});
  const Tensor classes = random_classes(kClasses - 1);  // the last class is taken, and never right
  std::vector<std::vector<double>> counts(kClasses, std::vector<double>(kClasses));
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const auto own = static_cast<std::size_t>(classes[i].item<std::int64_t>());
    counts[own][static_cast<std::size_t>(scores[i].argmax().item<std::int64_t>())] += 1;
  }
  std::vector<double> f1;
  double hits = 0;
  for (std::size_t c = 0; c < kClasses; ++c) {
    double taken = 0;
    double right = 0;
    for (std::size_t other = 0; other < kClasses; ++other) {
      taken += counts[other][c];
      right += counts[c][other];
    }
    hits += counts[c][c];
    const double precision = counts[c][c] / taken;
    const double recall = right == 0 ? 0 : counts[c][c] / right;
    f1.push_back(precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall));
  }
  double mean = 0;
  for (const double each : f1) mean += each / kClasses;
  run_threads(GetParam(), {}, [&](Communicator& ranks) {
    ConfusionMatrix matrix{kClasses};
    F1 positive{kClasses};
    F1 macro{kClasses, F1::Of::kMean};
    F1 micro{kClasses, F1::Of::kAll};
    in_batches(ranks, [&](const Tensor& batch) {
      for (ConfusionMatrix* each : {&matrix, static_cast<ConfusionMatrix*>(&positive)})
        each->add(scores.index({batch}), classes.index({batch}));
      for (F1* each : {&macro, &micro}) each->add(scores.index({batch}).argmax(1), classes.index({batch}));
    });
    const Tensor ours = matrix.matrix(ranks);
    for (std::size_t r = 0; r < kClasses; ++r) {
      for (std::size_t c = 0; c < kClasses; ++c) {
        EXPECT_EQ(ours[static_cast<std::int64_t>(r)][static_cast<std::int64_t>(c)].item<double>(), counts[r][c]);
      }
    }
    EXPECT_DOUBLE_EQ(matrix.value(ranks), hits / kSamples);
    EXPECT_DOUBLE_EQ(positive.value(ranks), f1[1]);
    EXPECT_NEAR(macro.value(ranks), mean, 1e-12);
    EXPECT_DOUBLE_EQ(micro.value(ranks), hits / kSamples);
  });
}

TEST_P(MeasuresTest, TheAreaIsTheShareOfPairsInTheRightOrder) {
  const Tensor scores = random(5, {kSamples}).mul(3).round();  // many are equal
  const Tensor classes = random_classes(2);
  double pairs = 0;
  double right = 0;
  for (std::int64_t a = 0; a < kSamples; ++a) {
    for (std::int64_t b = 0; b < kSamples; ++b) {
      if (classes[a].item<std::int64_t>() != 1 || classes[b].item<std::int64_t>() != 0) continue;
      const auto difference = (scores[a] - scores[b]).item<double>();
      pairs += 1;
      right += difference > 0 ? 1 : difference == 0 ? 0.5 : 0;
    }
  }
  run_threads(GetParam(), {}, [&](Communicator& ranks) {
    Auc auc;
    in_batches(ranks, [&](const Tensor& batch) { auc.add(scores.index({batch}), classes.index({batch})); });
    EXPECT_NEAR(auc.value(ranks), right / pairs, 1e-12);
    auc.reset();
    EXPECT_TRUE(std::isnan(auc.value(ranks)));
  });
}

TEST_P(MeasuresTest, ABatchThatDoesNotCountChangesNothing) {
  run_threads(GetParam(), {}, [&](Communicator& ranks) {
    const bool has_samples = ranks.rank() == 0;
    Accuracy accuracy;
    Auc auc;
    for (Measure* each : {static_cast<Measure*>(&accuracy), static_cast<Measure*>(&auc)}) each->set_counts(has_samples);
    accuracy.add(torch::eye(2), torch::tensor({0, has_samples ? 0 : 1}));
    auc.add(torch::tensor({0.1, 0.9}), torch::tensor({has_samples ? 0 : 1, has_samples ? 1 : 0}));
    EXPECT_DOUBLE_EQ(accuracy.value(ranks), 0.5);
    EXPECT_DOUBLE_EQ(auc.value(ranks), 1);
  });
}

TEST(MeasureErrors, SayWhatDoesNotFit) {
  EXPECT_SAYS(message_of<InvalidArgument>([] { Accuracy{}.add(torch::ones({3}), torch::ones({3})); }), "(3) and (3)");
  EXPECT_SAYS(message_of<InvalidArgument>([] { Auc{}.add(torch::ones({3}), torch::ones({2})); }), "one score");
  EXPECT_SAYS(message_of<InvalidArgument>([] { ConfusionMatrix{1}; }), "two classes");
  EXPECT_SAYS(message_of<InvalidArgument>([] { F1{}.add(torch::rand({2}), torch::tensor({0, 1})); }), "whole number");
  run_threads(2, {}, [](Communicator& ranks) {
    ConfusionMatrix matrix{2};
    matrix.add(torch::tensor({0, 1}), torch::tensor({0, ranks.rank() == 0 ? 2 : 1}));
    EXPECT_SAYS(message_of<InvalidArgument>([&] { matrix.value(ranks); }), "a class that is not from 0 to 1");
    Auc auc;
    auc.add(torch::tensor({0.5, ranks.rank() == 0 ? NAN : 0.5}), torch::tensor({0, 1}));
    EXPECT_SAYS(message_of<InvalidArgument>([&] { auc.value(ranks); }), "no number");
  });
}

}  // namespace
}  // namespace pharos::ml
