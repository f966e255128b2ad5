// Texts of different lengths, each good or bad: a batch is as wide as its longest text, and texts of similar length
// come together. The embedding and the rest of the network are two groups of parameters, which are trained in different
// ways. After each epoch the ranks measure together how well they tell good texts from bad ones (the area under the ROC
// curve) and how often they are right. At the end they are tested with texts that nothing was chosen by, and say of
// each of these how good it is.
//
//   pharos-text-classifier --ranks 2

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/ml/passes.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace {

namespace ml = pharos::ml;
namespace nn = torch::nn;
using torch::Tensor;

// ---- The data

constexpr std::size_t kTested = 1999;
constexpr std::int64_t kWords = 500;
constexpr std::int64_t kPadding = 0;  // the number of no word
constexpr std::int64_t kNot = 1;      // turns the meaning of the next word around
constexpr std::int64_t kGood = 2;     // from here on words are good,
constexpr std::int64_t kBad = 42;     // bad,
constexpr std::int64_t kPlain = 82;   // or neither of them

struct Texts {
  std::vector<std::vector<std::int64_t>> words;
  std::vector<float> good;  // 1 or 0 for each text
};

/// Texts of 4 to 80 words, drawn at random. A text is good if it has more good words than bad ones.
Texts make_texts(std::size_t count, std::uint32_t seed) {
  std::mt19937 random{seed};
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  Texts texts;
  while (texts.words.size() < count) {
    std::vector<std::int64_t> words;
    std::int64_t mood = 0;
    for (std::int64_t length = 4 + below(77); length > 0; --length) {
      const bool is_turned = !words.empty() && words.back() == kNot;
      const bool has_mood = is_turned || below(4) == 0;
      const std::int64_t word =
          has_mood ? kGood + below(kPlain - kGood) : (below(8) == 0 ? kNot : kPlain + below(kWords - kPlain));
      if (has_mood) mood += (word < kBad) == is_turned ? -1 : 1;
      words.push_back(word);
    }
    if (mood == 0) continue;
    texts.words.push_back(std::move(words));
    texts.good.push_back(mood > 0 ? 1 : 0);
  }
  return texts;
}

ml::DatasetPtr dataset_of(const Texts& texts) {
  return ml::side_by_side({ml::lists_of("words", texts.words), ml::rows_of({{"good", ml::Array::of(texts.good)}})});
}

// ---- The model

/// Looks at each word beside the one before it, and adds up what it sees.
struct ClassifierImpl : nn::Module {
  ClassifierImpl() {
    register_module("embedding", embedding);
    register_module("pairs", pairs);
    register_module("mood", mood);
  }
  Tensor forward(const Tensor& words) {
    const Tensor vectors = torch::constant_pad_nd(embedding(words).transpose(1, 2), {1, 0});
    const Tensor seen = mood(torch::relu(pairs(vectors)).transpose(1, 2)).squeeze(2);
    return (seen * words.ne(kPadding)).sum(1);
  }

  nn::Embedding embedding{nn::EmbeddingOptions(kWords, 16).padding_idx(kPadding)};
  nn::Conv1d pairs{nn::Conv1dOptions(16, 32, 2)};
  nn::Linear mood{32, 1};
};
TORCH_MODULE(Classifier);

class Moods : public ml::Learner {
 public:
  explicit Moods(std::size_t batch) : batch_{batch} {}

  nn::Module& module() override { return *classifier_; }
  ml::DatasetPtr training_data() override { return learned_; }
  ml::DatasetPtr validation_data() override { return dataset_of(make_texts(1003, 2)); }
  std::optional<ml::Order> training_order(std::uint64_t) override {
    return ml::Order::bucketed(ml::lengths_of(*learned_, "words"), batch_ * context().size(), context().seed());
  }
  Tensor training_step(const ml::Batch& batch) override {
    const Tensor good = on_device(batch, "good");
    const Tensor scores = classifier_(on_device(batch, "words"));
    log("accuracy", scores.gt(0).eq(good.gt(0)).to(torch::kFloat).mean());
    return torch::binary_cross_entropy_with_logits(scores, good);
  }
  ml::Metrics validation_step(const ml::Batch& batch) override {
    const Tensor good = on_device(batch, "good");
    const Tensor scores = classifier_(on_device(batch, "words"));
    auc_.add(scores, good);
    f1_.add(scores.gt(0), good);
    return {{"loss", torch::binary_cross_entropy_with_logits(scores, good).item<double>()}};
  }
  ml::DatasetPtr test_data() override { return dataset_of(make_texts(kTested, 3)); }
  Tensor predict_step(const ml::Batch& batch) override {
    return torch::sigmoid(classifier_(on_device(batch, "words")));
  }
  std::vector<ml::NamedMeasure> measures() override { return {{"auc", &auc_}, {"f1", &f1_}}; }
  ml::Optimization configure_optimizers() override {
    const auto settings = [](const ml::WholeParameter& parameter) -> ml::ParameterSettings {
      if (parameter.name.starts_with("embedding.")) return {.lr_factor = 3};
      return {.weight_decay = 0.01};
    };
    return {.rule = ml::AdamW{.lr = 1e-2}, .settings = settings};
  }
  std::vector<std::shared_ptr<ml::FitCallback>> callbacks() override {
    return {ml::lower_rate_on({.metric = "validation_auc", .is_better_lower = false, .factor = 0.5, .patience = 1})};
  }

 private:
  const std::size_t batch_;
  const ml::DatasetPtr learned_ = dataset_of(make_texts(8009, 1));
  Classifier classifier_;
  ml::Auc auc_;
  ml::F1 f1_;
};

// ---- The program

struct Options {
  std::size_t ranks = 2;
  std::size_t epochs = 6;
};

constexpr std::string_view kUsage = R"(usage: pharos-text-classifier [OPTION…]

Learns to tell good texts from bad ones. It draws the texts itself.

  --ranks N   processes that train it together (2)
  --epochs N  passes over the texts (6)

examples:
  pharos-text-classifier
  pharos-text-classifier --ranks 3 --epochs 8
)";

/// Returns the exit status: 0 if it has learned what it should.
int run(pharos::Runtime& runtime, const Options& options) {
  const std::size_t batch = std::max<std::size_t>(64 / options.ranks, 1);
  ml::Trainer trainer{runtime,
                      {.name = "texts",
                       .scaling = {.workers = options.ranks, .cpus_per_worker = 0},  // may outnumber the cores
                       .seed = 1,
                       .metric = "validation_auc",
                       .is_better_lower = false}};
  const ml::TrainResult result = ml::fit<Moods>(trainer, {.batch = batch, .epochs = options.epochs}, batch);
  std::printf("%8s %10s %10s %10s\n", "step", "loss", "AUC", "F1");
  for (const ml::TrainReport& each : result.reports) {
    const double* const auc = each.metrics.find("validation_auc");
    if (auc == nullptr) continue;
    std::printf("%8ju %10.4f %10.4f %10.4f\n", each.step, *each.metrics.find("validation_loss"), *auc,
                *each.metrics.find("validation_f1"));
  }
  std::printf("The texts were drawn by this program.\n");
  if (result.end == ml::TrainResult::End::kInterrupted) {
    std::printf("Interrupted at step %ju.\n", result.steps);
    return 130;
  }
  const ml::Metrics tested = ml::test<Moods>(trainer, result.model, {.batch = batch}, batch);
  const ml::Array good = ml::predict<Moods>(trainer, result.model, {.batch = batch}, batch);
  const auto shares = good.values<float>();
  const auto sure =
      std::count_if(shares.begin(), shares.end(), [](float share) { return std::abs(share - 0.5) > 0.4; });
  std::printf("Of %zu texts for the test: AUC %.4f, F1 %.4f; sure of %zd.\n", shares.size(), *tested.find("test_auc"),
              *tested.find("test_f1"), sure);
  return *tested.find("test_auc") > 0.95 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return examples::run_program(argc, argv, kUsage, {{"--ranks", &options.ranks}, {"--epochs", &options.epochs}},
                               [&](pharos::Runtime& runtime) { return run(runtime, options); });
}
