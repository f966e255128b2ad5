// A recommender of two towers: one network (a tower) makes a vector of a user, the other makes a vector of an item, and
// the items whose vectors are nearest to the user's are recommended. For each user of a batch, the items of the other
// users are the negative samples. `Recommender` defines the model, the data and the loss. ml::fit() trains it on ranks
// that each have a copy and a share of every batch. After each epoch the ranks measure together how many of the items
// that users took last are among the first 1, 10 and 50 recommendations.
//
//   pharos-two-tower-recommender --ranks 2 --picture recall.svg

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace {

namespace ml = pharos::ml;
namespace nn = torch::nn;
using torch::Tensor;

constexpr std::int64_t kUsers = 4000;
constexpr std::int64_t kItems = 1000;
constexpr std::int64_t kTaken = 20;   // items of each user to learn from; one more is held out
constexpr std::int64_t kFactors = 6;  // of users and items, from which the data is made
constexpr std::int64_t kWidth = 32;   // of the vectors that the towers make
constexpr double kTemperature = 0.1;
constexpr std::size_t kBatch = 512;        // of all ranks together
constexpr std::uint64_t kSaveEvery = 100;  // steps

// ---- The data

/// The items that users took, with a row for each user, in the order in which the user took them. The rows stay in
/// memory that all ranks share.
class Taken {
 public:
  explicit Taken(pharos::SharedArray<std::int64_t, 2> memory)
      : memory_{std::move(memory)},
        items_{torch::from_blob(const_cast<std::int64_t*>(memory_.data()), {kUsers, kTaken + 1}, torch::kLong)} {}

  Tensor learned() const { return items_.narrow(1, 0, kTaken); }
  Tensor held_out() const { return items_.select(1, kTaken); }

 private:
  pharos::SharedArray<std::int64_t, 2> memory_;
  Tensor items_;
};

/// Returns how much each user likes each item. The factors of user and item decide, and some items are liked by all
/// users.
Tensor make_tastes() {
  torch::manual_seed(1);
  const Tensor users = torch::randn({kUsers, kFactors});
  const Tensor items = torch::randn({kItems, kFactors});
  return users.mm(items.t()) + torch::randn({1, kItems});
}

/// Draws the items that users take, by taste and chance, directly into shared memory.
pharos::Ref<pharos::SharedArray<std::int64_t, 2>> make_taken(pharos::Runtime& runtime, const Tensor& tastes) {
  auto memory = runtime.create<std::int64_t>(kUsers, kTaken + 1);
  torch::from_blob(memory.span().data(), {kUsers, kTaken + 1}, torch::kLong)
      .copy_(torch::multinomial(torch::softmax(tastes, 1), kTaken + 1));
  return std::move(memory).seal();
}

/// Returns how many users took each item.
Tensor popularity_of_items(const Taken& taken) {
  return torch::bincount(taken.learned().flatten(), {}, kItems).to(torch::kFloat);
}

/// Returns for which share of the users the wanted item is among the k items with the highest scores. Items that the
/// user has taken are left out.
ml::Metrics recall_of(const Tensor& scores, const Tensor& taken, const Tensor& wanted) {
  const Tensor others = scores.scatter(1, taken, -std::numeric_limits<double>::infinity());
  const Tensor before = others.gt(others.gather(1, wanted.unsqueeze(1))).sum(1);
  const auto within = [&](std::int64_t k) { return before.lt(k).to(torch::kDouble).mean().item<double>(); };
  return {{"recall_1", within(1)}, {"recall_10", within(10)}, {"recall_50", within(50)}};
}

// ---- What is trained

class TowerImpl : public nn::Module {
 public:
  explicit TowerImpl(std::int64_t size) : embedding_{register_module("embedding", nn::Embedding(size, kWidth))} {
    register_module("layers", layers_);
  }

  /// Returns vectors of length 1.
  Tensor forward(const Tensor& numbers) {
    return nn::functional::normalize(layers_->forward(embedding_(numbers)),
                                     nn::functional::NormalizeFuncOptions().dim(1));
  }

 private:
  nn::Embedding embedding_;
  nn::Sequential layers_{nn::Linear(kWidth, 2 * kWidth), nn::ReLU(), nn::Linear(2 * kWidth, kWidth)};
};
TORCH_MODULE(Tower);

struct TwoTowersImpl : nn::Module {
  Tower users = register_module("users", Tower(kUsers));
  Tower items = register_module("items", Tower(kItems));
};
TORCH_MODULE(TwoTowers);

class Recommender : public ml::Learner {
 public:
  explicit Recommender(pharos::SharedArray<std::int64_t, 2> taken)
      : taken_{std::move(taken)}, log_popularity_{popularity_of_items(taken_).clamp_min(1).log()} {}

  nn::Module& module() override { return *towers_; }
  ml::DatasetPtr training_data() override {
    return ml::rows_of({{"user", ml::array_of(torch::arange(kUsers).repeat_interleave(kTaken))},
                        {"item", ml::array_of(taken_.learned().flatten())}});
  }
  ml::DatasetPtr validation_data() override {
    return ml::rows_of({{"user", ml::array_of(torch::arange(kUsers))},
                        {"taken", ml::array_of(taken_.learned())},
                        {"wanted", ml::array_of(taken_.held_out())}});
  }
  Tensor training_step(const ml::Batch& batch) override {
    const Tensor items = ml::tensor_of(batch["item"]);
    const Tensor near = towers_->users(ml::tensor_of(batch["user"])).mm(towers_->items(items).t());
    // A popular item is a negative sample more often, because another user of the batch has often taken it. Without
    // this correction it would be recommended too rarely.
    const Tensor scores = near / kTemperature - log_popularity_.index_select(0, items);
    const Tensor is_same = items.unsqueeze(0).eq(items.unsqueeze(1)).fill_diagonal_(false);
    return torch::cross_entropy_loss(scores.masked_fill(is_same, -1e9), torch::arange(items.size(0)));
  }
  ml::Metrics validation_step(const ml::Batch& batch) override {
    const Tensor users = towers_->users(ml::tensor_of(batch["user"]));
    const Tensor items = towers_->items(torch::arange(kItems));
    return recall_of(users.mm(items.t()), ml::tensor_of(batch["taken"]), ml::tensor_of(batch["wanted"]));
  }
  ml::Optimization configure_optimizers() override {
    return {.rule = ml::AdamW{.lr = 2e-2}, .weight_decay = 0.01, .schedule = ml::cosine(context().expected_steps())};
  }

 private:
  const Taken taken_;
  const Tensor log_popularity_;
  TwoTowers towers_;
};

// ---- The program

struct Options {
  std::size_t ranks = 2;
  std::size_t epochs = 12;
  std::string folder{};
  std::string picture{};
};

constexpr std::string_view kUsage = R"(usage: pharos-two-tower-recommender [OPTION…]

Learns what 4000 users like of 1000 items, and recommends what they have not taken yet.

  --ranks N       processes that train it together (2)
  --epochs N      passes over what the users took (12)
  --folder DIR    for checkpoints, each 100 steps; what is there is gone on with
  --picture FILE  recall@10 after each epoch, as SVG

examples:
  pharos-two-tower-recommender
  pharos-two-tower-recommender --ranks 4 --epochs 20 --folder runs/towers
)";

ml::TrainResult train(pharos::Runtime& runtime, const Options& options,
                      const pharos::Ref<pharos::SharedArray<std::int64_t, 2>>& taken) {
  const std::size_t batch = std::max<std::size_t>(kBatch / options.ranks, 1);
  ml::Trainer trainer{runtime,
                      {.name = "recommender",
                       .scaling = {.workers = options.ranks, .cpus_per_worker = 0},  // ranks may outnumber cores
                       .seed = 1,
                       .folder = options.folder,
                       .save_every = options.folder.empty() ? 0 : kSaveEvery,
                       .metric = "validation_recall_10",
                       .is_better_lower = false}};
  return ml::fit<Recommender>(trainer, {.batch = batch, .epochs = options.epochs}, taken);
}

void print_row(const char* who, const ml::Metrics& recall, const std::string& before = {}) {
  std::printf("%-34s", who);
  for (const char* const name : {"recall_1", "recall_10", "recall_50"}) {
    std::printf("%9.1f %%", 100 * *recall.find(before + name));
  }
  std::printf("\n");
}

/// Prints the results. Returns true if the towers recommend far better than a list of the most popular items.
bool show(const ml::TrainResult& result, const Taken& taken, const Tensor& tastes) {
  const Tensor popularity = popularity_of_items(taken).expand({kUsers, kItems});
  const ml::Metrics by_popularity = recall_of(popularity, taken.learned(), taken.held_out());
  const ml::Metrics& by_towers = result.reports.back().metrics;
  std::printf("\n%s\nOf the items that users took last, among the first k recommended:\n\n",
              result.to_text_picture().c_str());
  std::printf("%-34s%11s%11s%11s\n", "", "recall@1", "recall@10", "recall@50");
  print_row("to all of them the most popular", by_popularity);
  print_row("by the two towers", by_towers, "validation_");
  print_row("by who knows how they were made", recall_of(tastes, taken.learned(), taken.held_out()));
  std::printf("Users, items and what they took were drawn by this program.\n");
  return *by_towers.find("validation_recall_10") > 1.5 * *by_popularity.find("recall_10");
}

int run(pharos::Runtime& runtime, const Options& options) {
  torch::set_num_threads(1);
  const Tensor tastes = make_tastes();
  const auto taken = make_taken(runtime, tastes);
  std::printf("Two towers learn on %zu ranks what %jd users like of %jd items, from %jd that each took.\n",
              options.ranks, kUsers, kItems, kTaken);
  std::fflush(stdout);
  const ml::TrainResult result = train(runtime, options, taken);
  if (!options.picture.empty() && !result.reports.empty()) examples::write(options.picture, result.to_svg());
  if (result.end == ml::TrainResult::End::kInterrupted) {
    std::printf("Interrupted at step %ju.%s\n", result.steps,
                options.folder.empty() ? "" : " Started again with the same folder, it goes on from there.");
    return 130;
  }
  if (result.reports.empty()) {
    std::printf("%s has all %ju steps already: nothing is left to do.\n", options.folder.c_str(), result.steps);
    return 0;
  }
  return show(result, Taken{taken.get()}, tastes) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return examples::run_program(argc, argv, kUsage,
                               {{"--ranks", &options.ranks},
                                {"--epochs", &options.epochs},
                                {"--folder", &options.folder},
                                {"--picture", &options.picture}},
                               [&](pharos::Runtime& runtime) { return run(runtime, options); });
}
