// Learners on groups of actors: the same curve by every strategy, also when a rank is killed.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/base/failpoint.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/ml/sync_batch_norm.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "demand.hpp"
#include "says.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::fitting {

using torch::Tensor;

constexpr std::uint64_t kEpochs = 23;
constexpr std::uint64_t kPointsSteps = kEpochs * 9;  // of twelve samples each

/// Points of a plane in three classes; what is learned is which. The numbers of samples divide by nothing.
struct Points : Learner {
  static constexpr std::int64_t kTraining = 101;
  static constexpr std::int64_t kValidation = 37;

  explicit Points(std::uint64_t dies_at) : dies_at_{dies_at} { net_->to(torch::kDouble); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return samples(1, kTraining); }
  DatasetPtr validation_data() override { return samples(2, kValidation); }
  Tensor training_step(const Batch& batch) override {
    return torch::cross_entropy_loss(net_->forward(tensor_of(batch["point"])), tensor_of(batch["class"]));
  }
  Metrics validation_step(const Batch& batch) override {
    demand(!net_->is_training(), "the module is in evaluation");
    demand(!torch::GradMode::is_enabled(), "there are no gradients");
    const Tensor out = net_->forward(tensor_of(batch["point"]));
    const Tensor classes = tensor_of(batch["class"]);
    return {{"loss", torch::cross_entropy_loss(out, classes).item<double>()},
            {"accuracy", out.argmax(1).eq(classes).to(torch::kDouble).mean().item<double>()}};
  }
  Optimization configure_optimizers() override {
    return {.rule = AdamW{.lr = 0.03}, .weight_decay = 0.01, .schedule = schedule(), .clip_norm = 1};
  }
  /// Its rate is 0 nowhere.
  static Schedule schedule() { return warm_up(3, cosine(kPointsSteps)); }
  void add_to_state(State& state) override {
    state.before_save([this] {
      const bool is_first = context().attempt() == 0 && !context().is_replacement();
      const bool is_time = ++saves_ == dies_at_ && is_first && context().rank() == 1;
      if (is_time) ::kill(::getpid(), SIGKILL);
    });
  }

 private:
  static DatasetPtr samples(std::uint64_t seed, std::int64_t count) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor points = torch::randn({count, 2}, random, torch::kDouble);
    const Tensor classes = (points.sum(1).gt(0.5)).to(torch::kLong) + (points.sum(1).gt(-0.5)).to(torch::kLong);
    return rows_of({{"point", array_of(points)}, {"class", array_of(classes)}});
  }

  const std::uint64_t dies_at_;
  std::uint64_t saves_ = 0;
  torch::nn::Sequential net_{torch::nn::Linear(2, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3)};
};

/// What it learns is best in the middle.
struct BestInTheMiddle : Points {
  using Points::Points;

  Metrics validation_step(const Batch&) override { return std::abs(static_cast<double>(context().step()) - 20); }
};

/// Others wait for its parameters when they validate.
struct LateInValidation : Points {
  using Points::Points;
  static constexpr std::chrono::milliseconds kLate{1000};

  Metrics validation_step(const Batch& batch) override {
    const bool is_first = std::exchange(validated_at_, context().step()) != context().step();
    if (is_first && context().rank() == 1) std::this_thread::sleep_for(kLate);  // what it does
    return Points::validation_step(batch);
  }

 private:
  std::uint64_t validated_at_ = 0;
};

/// Its gradients are to be in parts at any time, whatever is added up in them.
struct InParts : Points {
  using Points::Points;

  Tensor training_step(const Batch& batch) override {
    for (const Tensor& each : module().parameters()) demand(!each.grad().defined(), "no gradient is whole");
    return Points::training_step(batch);
  }
};

/// Takes its time.
struct Slow : Points {
  using Points::Points;
  static constexpr std::chrono::milliseconds kStep{40};

  Tensor training_step(const Batch& batch) override {
    std::this_thread::sleep_for(kStep);  // what it does
    return Points::training_step(batch);
  }
  Optimization configure_optimizers() override { return {}; }
};

/// A loss of 1000 w, which begins at 0: each step goes as far as it may.
struct Steep : Learner {
  explicit Steep(double clip_norm) : clip_norm_{clip_norm} {
    const torch::NoGradGuard no_grad;
    net_->weight.zero_();
  }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({24, 1}))}}); }
  Tensor training_step(const Batch& batch) override { return net_->forward(tensor_of(batch["x"])).mean() * 1000; }
  Optimization configure_optimizers() override { return {.rule = Sgd{.lr = 1}, .clip_norm = clip_norm_}; }

 private:
  const double clip_norm_;
  torch::nn::Linear net_{torch::nn::LinearOptions{1, 1}.bias(false)};
};

/// Normalises over the batches of all ranks.
struct Synced : Points {
  using Points::Points;

  torch::nn::Module& module() override {
    if (net_->is_empty()) {
      net_->push_back(torch::nn::Linear(2, 16));
      net_->push_back(SyncBatchNorm(context().communicator(), 16));
      net_->push_back(torch::nn::Linear(16, 3));
      net_->to(torch::kDouble);
    }
    return *net_;
  }
  Tensor training_step(const Batch& batch) override {
    return torch::cross_entropy_loss(net_->forward(tensor_of(batch["point"])), tensor_of(batch["class"]));
  }
  Metrics validation_step(const Batch&) override { return 0.0; }

 private:
  torch::nn::Sequential net_;
};

/// When a rank is to die, or to be stopped, of its own accord.
struct Mishap {
  enum class At : std::uint8_t {
    kNever,
    kBeforeForward,
    kBeforeBackward,
    kBeforeCommit,
    kInValidation,
    kFailpoint,  ///< that it comes to in that step or later
    kAnyTime,
  };
  At at = At::kNever;
  std::vector<std::uint32_t> ranks{};
  std::uint64_t step = 0;          ///< that it has committed by then
  std::uint64_t microseconds = 0;  ///< with kAnyTime, after so many
  int signal = SIGKILL;            ///< 0: its function hangs, or comes late by `microseconds`
  bool replacement_too = false;    ///< who comes in its place dies there, too
  std::string failpoint{};         ///< "data_given:kill"
  std::string marker{};  ///< a file: who comes first in another's place makes it, and dies while it takes the state
  bool counts = false;   ///< each rank has a number of its own

  auto pharos_fields() {
    return std::tie(at, ranks, step, microseconds, signal, replacement_too, failpoint, marker, counts);
  }
};

/// Has all that makes a step hard to do again: normalisation over batches, which changes buffers in forward, dropout,
/// and numbers that the learner itself keeps.
struct Images : Learner {
  explicit Images(const Mishap& mishap) : mishap_{mishap} { net_->to(torch::kDouble); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return samples(1, 63); }
  DatasetPtr validation_data() override { return samples(2, 17); }
  Tensor training_step(const Batch& batch) override {
    const bool is_first = context().attempt() == 0;
    const bool is_begun = is_first && context().step() == 0;
    if (is_begun && mishap_.at == Mishap::At::kAnyTime && is_one_of_them()) end_after_a_while();
    if (is_first && context().step() == mishap_.step && mishap_.at == Mishap::At::kFailpoint && is_one_of_them()) {
      order_failpoint(*parse_failpoint(mishap_.failpoint));
    }
    seen_ += batch.samples_of_all;
    ++own_steps_;
    happen(Mishap::At::kBeforeForward);
    const Tensor loss = loss_of(batch);
    happen(Mishap::At::kBeforeBackward);
    return loss;
  }
  Metrics validation_step(const Batch& batch) override {
    happen(Mishap::At::kInValidation);
    return {{"loss", loss_of(batch).item<double>()},
            {"seen", static_cast<double>(seen_)},
            {"own_steps", static_cast<double>(own_steps_)}};
  }
  Optimization configure_optimizers() override {
    if (context().is_replacement() && !mishap_.marker.empty() && !std::filesystem::exists(mishap_.marker)) {
      std::ofstream{mishap_.marker} << "here";
      order_failpoint(*parse_failpoint("state_taken:kill"));
    }
    return {.rule = Sgd{.lr = 0.05, .momentum = 0.9}, .clip_norm = 1};
  }
  void add_to_state(State& state) override {
    state.add("seen", seen_);
    if (mishap_.counts) state.add_of_rank("own_steps", own_steps_);
    state.before_save([this] { happen(Mishap::At::kBeforeCommit); });
  }

 private:
  bool is_one_of_them() const {
    const bool is_due = mishap_.replacement_too || !context().is_replacement();
    return is_due && std::ranges::find(mishap_.ranks, context().rank()) != mishap_.ranks.end();
  }
  void happen(Mishap::At at) {
    if (mishap_.at != at || context().step() != mishap_.step || context().attempt() != 0 || !is_one_of_them()) return;
    if (std::exchange(has_happened_, true)) return;
    if (mishap_.signal == 0 && mishap_.microseconds != 0) {
      return std::this_thread::sleep_for(std::chrono::microseconds{mishap_.microseconds});
    }
    while (mishap_.signal == 0) ::pause();
    ::kill(::getpid(), mishap_.signal);
  }
  void end_after_a_while() const {
    std::thread{[after = mishap_.microseconds, signal = mishap_.signal] {
      std::this_thread::sleep_for(std::chrono::microseconds{after});
      ::kill(::getpid(), signal);
    }}.detach();
  }
  Tensor loss_of(const Batch& batch) {
    return torch::cross_entropy_loss(net_->forward(tensor_of(batch["image"])), tensor_of(batch["class"]));
  }
  static DatasetPtr samples(std::uint64_t seed, std::int64_t count) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor images = torch::randn({count, 1, 6, 6}, random, torch::kDouble);
    const Tensor classes = images.mean({1, 2, 3}).gt(0).to(torch::kLong);
    return rows_of({{"image", array_of(images)}, {"class", array_of(classes)}});
  }

  const Mishap mishap_;
  bool has_happened_ = false;
  std::uint64_t seen_ = 0;
  std::uint64_t own_steps_ = 0;
  torch::nn::Sequential net_{torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)),
                             torch::nn::BatchNorm2d(4),
                             torch::nn::ReLU(),
                             torch::nn::Flatten(),
                             torch::nn::Dropout(0.2),
                             torch::nn::Linear(64, 32),  // large enough for ranks to reduce a part each
                             torch::nn::ReLU(),
                             torch::nn::Linear(32, 2)};
};

/// Which of three stripes points are in, in halves.
struct Halves : Learner {
  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override {
    auto random = at::make_generator<at::CPUGeneratorImpl>(1);
    const Tensor points = torch::randn({64, 2}, random);
    const Tensor classes = points.sum(1).gt(0.5).to(torch::kLong) + points.sum(1).gt(-0.5).to(torch::kLong);
    return rows_of({{"point", array_of(points)}, {"class", array_of(classes)}});
  }
  Tensor training_step(const Batch& batch) override {
    const Tensor out = net_->forward(tensor_of(batch["point"]).to(torch::kBFloat16));
    demand(out.scalar_type() == torch::kBFloat16, "the module computes in bfloat16");
    return torch::cross_entropy_loss(out.to(torch::kFloat), tensor_of(batch["class"]));
  }
  Optimization configure_optimizers() override { return {.rule = AdamW{.lr = 0.03}}; }

 private:
  torch::nn::Sequential net_{torch::nn::Linear(2, 16), torch::nn::BatchNorm1d(16), torch::nn::Tanh(),
                             torch::nn::Linear(16, 3)};
};

/// Goes wrong on rank 1, or where there is but one, in the fourth step: the loss is no number, or is one and its
/// gradient is none.
struct Broken : Learner {
  Broken(bool has_loss, bool clips) : has_loss_{has_loss}, clips_{clips} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({40, 1}))}}); }
  DatasetPtr validation_data() override { return training_data(); }
  Tensor training_step(const Batch& batch) override {
    const Tensor loss = net_->forward(tensor_of(batch["x"])).square().mean();
    if (context().step() != 3 || context().rank() + 1 != std::min(context().size(), 2U)) return loss;
    if (!has_loss_) return loss * std::numeric_limits<double>::quiet_NaN();
    return loss + (net_->bias * 0).sqrt().sum();  // 0, and its derivative is infinite
  }
  Metrics validation_step(const Batch&) override { return {{"score", 1}}; }
  Optimization configure_optimizers() override { return {.rule = Sgd{}, .clip_norm = clips_ ? 1.0 : 0.0}; }

 private:
  const bool has_loss_;
  const bool clips_;
  torch::nn::Linear net_{1, 1};
};

struct TooFew : Learner {
  explicit TooFew(std::int64_t training) : training_{training} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::zeros({training_, 1}))}}); }
  DatasetPtr validation_data() override { return rows_of({{"x", array_of(torch::zeros({2, 1}))}}); }
  Tensor training_step(const Batch& batch) override { return net_->forward(tensor_of(batch["x"])).sum(); }

 private:
  const std::int64_t training_;
  torch::nn::Linear net_{1, 1};
};

namespace {

class FitTest : public cluster::ClusterTest {
 protected:
  TrainerOptions options(const std::string& name, std::size_t workers) const {
    return {.scaling = {.workers = workers, .cpus_per_worker = 0},
            .seed = 3,
            .folder = folder_.path() / name,
            .save_every = 4,
            .progress = false};
  }
  static std::vector<double> losses(const TrainResult& result) {
    std::vector<double> losses;
    for (const TrainReport& each : result.reports) losses.push_back(*each.metrics.find("loss"));
    return losses;
  }

  const TemporaryFolder folder_;
};

constexpr const char* kValidated = "validation_accuracy";
TEST_F(FitTest, LearnsTheSameByEveryStrategyAndOnAnyNumberOfRanks) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const auto seldom_saved = [this](const std::string& name, std::size_t workers) {
    TrainerOptions its = options(name, workers);
    its.save_every = 100;
    return its;
  };
  Trainer alone{runtime, seldom_saved("alone", 1)};
  const TrainResult one = fit<Points>(alone, {.batch = 12, .epochs = kEpochs}, std::uint64_t{0});
  EXPECT_EQ(one.steps, kPointsSteps);
  EXPECT_GT(*one.last(kValidated), 0.8);
  EXPECT_LT(*one.last("validation_loss"), *one.reports[8].metrics.find("validation_loss"));
  for (const std::size_t ranks : {2U, 3U}) {
    for (const FitStrategy each :
         {FitStrategy::kByMemory, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, strategy " + std::to_string(static_cast<int>(each)));
      const std::string name = std::to_string(ranks) + "-" + std::to_string(static_cast<int>(each));
      Trainer trainer{runtime, seldom_saved(name, ranks)};
      const TrainResult many =
          fit<Points>(trainer, {.batch = 12 / ranks, .epochs = kEpochs, .strategy = each}, std::uint64_t{0});
      ASSERT_EQ(many.steps, one.steps);
      for (std::size_t i = 0; i < one.steps; ++i) EXPECT_NEAR(losses(many)[i], losses(one)[i], 1e-9) << i;
      // Each of the 37 counts once.
      EXPECT_NEAR(*many.last(kValidated), *one.last(kValidated), 1e-12);
      EXPECT_NEAR(*many.last("validation_loss"), *one.last("validation_loss"), 1e-9);
    }
  }
}

TEST_F(FitTest, AccumulatedBatchesAreOneLargeOne) {
  Runtime runtime;
  Trainer large{runtime, options("large", 2)};
  const TrainResult whole = fit<Points>(large, {.batch = 6, .epochs = 2}, std::uint64_t{0});
  const FitOptions in_parts{.batch = 2, .accumulate = 3, .epochs = 2};
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    Trainer small{runtime, options("small" + std::to_string(static_cast<int>(each)), 2)};
    FitOptions how = in_parts;
    how.strategy = each;
    const bool is_divided = each == FitStrategy::kZero2 || each == FitStrategy::kFullyShard;
    const TrainResult parts =
        is_divided ? fit<InParts>(small, how, std::uint64_t{0}) : fit<Points>(small, how, std::uint64_t{0});
    ASSERT_EQ(parts.steps, whole.steps);
    for (std::size_t i = 0; i < whole.steps; ++i) EXPECT_NEAR(losses(parts)[i], losses(whole)[i], 1e-9) << i;
  }
}

TEST_F(FitTest, TheBestValidatedStepStays) {
  Runtime runtime;
  TrainerOptions choosy = options("choosy", 2);
  choosy.save_every = 100;
  choosy.keep_last = 1;
  choosy.keep_best = 1;
  choosy.metric = "validation_loss";
  Trainer trainer{runtime, std::move(choosy)};
  const TrainResult result = fit<BestInTheMiddle>(trainer, {.batch = 6, .epochs = 4}, std::uint64_t{0});
  EXPECT_EQ(result.best->step, 18U);
  const auto saved = checkpoints_in(folder_.path() / "choosy" / "checkpoints");
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].moment.step, 36U);
  EXPECT_EQ(saved[1].moment.step, 18U);
}

TEST_F(FitTest, ARankThatIsKilledIsNoHarmToWhatIsLearned) {
  Runtime runtime;
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Points>(calm, {.batch = 6, .epochs = 3}, std::uint64_t{0});
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
    Trainer trainer{runtime, options("killed" + std::to_string(static_cast<int>(each)), 2)};
    const TrainResult result = fit<Points>(trainer, {.batch = 6, .epochs = 3, .strategy = each}, std::uint64_t{4});
    ASSERT_EQ(result.restarts.size(), 1U);
    EXPECT_SAYS(result.restarts[0].why, "rank 1");
    ASSERT_EQ(result.steps, whole.steps);
    for (std::size_t i = 0; i < whole.steps; ++i) EXPECT_NEAR(losses(result)[i], losses(whole)[i], 1e-9) << i;
  }
}

constexpr FitOptions kImages{.batch = 5, .epochs = 3};
constexpr std::uint64_t kImageSteps = 3 * 5;  // of three ranks

class Replaced : public FitTest {
 protected:
  /// Without a folder: there is nothing to go on from but the other ranks.
  static TrainResult train(Runtime& runtime, const Mishap& mishap, Duration timeout = std::chrono::seconds{20}) {
    Trainer trainer{
        runtime, {.scaling = {.workers = 3, .cpus_per_worker = 0}, .seed = 3, .timeout = timeout, .progress = false}};
    return fit<Images>(trainer, kImages, mishap);
  }
  /// The same numbers, to the bit, and each step once.
  static void expect_as_if_nothing_had_been(Runtime& runtime, const TrainResult& result) {
    static const TrainResult calm = train(runtime, {});
    ASSERT_EQ(calm.steps, kImageSteps);
    ASSERT_EQ(result.reports.size(), calm.reports.size());
    for (std::size_t i = 0; i < result.reports.size(); ++i) {
      EXPECT_EQ(result.reports[i].step, i + 1);
      for (const char* const name : {"loss", "validation_loss", "validation_seen"}) {
        const auto* const wanted = calm.reports[i].metrics.find(name);
        const auto* const found = result.reports[i].metrics.find(name);
        ASSERT_EQ(found == nullptr, wanted == nullptr) << name << " of step " << i + 1;
        if (wanted == nullptr) continue;
        EXPECT_EQ(*found, *wanted) << name << " of step " << i + 1;
      }
    }
  }
  static void expect_replaced(const TrainResult& result, std::size_t times, const std::string& who) {
    ASSERT_EQ(result.restarts.size(), times);
    for (const TrainResult::Restart& each : result.restarts) {
      EXPECT_TRUE(each.is_replacement) << each.why;
      EXPECT_SAYS(each.why, who);
    }
  }
};

using At = Mishap::At;

TEST_F(Replaced, WhereverItDiesTheOthersGoOnWithTheSameStep) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const At at : {At::kBeforeForward, At::kBeforeBackward, At::kBeforeCommit, At::kInValidation}) {
    for (const std::uint32_t rank : {0U, 2U}) {
      const std::uint64_t step = at == At::kInValidation ? 10 : 7;
      SCOPED_TRACE("rank " + std::to_string(rank) + " at " + std::to_string(static_cast<int>(at)));
      const TrainResult result = train(runtime, {.at = at, .ranks = {rank}, .step = step});
      expect_as_if_nothing_had_been(runtime, result);
      expect_replaced(result, 1, "rank " + std::to_string(rank));
    }
  }
}

TEST_F(Replaced, AtEachFailpointOfAStep) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  for (const std::string where : {"data_given", "part_reduced", "result_taken", "step_committed", "step_told"}) {
    for (const std::string how : {":kill:0", ":kill:1", ":stop:0"}) {
      const std::uint32_t rank = how.ends_with('1') ? 0 : 2;
      SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where + how);
      const TrainResult result =
          train(runtime, {.at = At::kFailpoint, .ranks = {rank}, .step = 6, .failpoint = where + how},
                how.starts_with(":stop") ? std::chrono::seconds{1} : std::chrono::seconds{20});
      expect_as_if_nothing_had_been(runtime, result);
      expect_replaced(result, 1, "rank " + std::to_string(rank));
    }
  }
}

TEST_F(Replaced, WhoIsStoppedIsEndedAndReplaced) {
  Runtime runtime;
  const TrainResult result =
      train(runtime, {.at = At::kBeforeBackward, .ranks = {1}, .step = 6, .signal = SIGSTOP}, std::chrono::seconds{1});
  expect_as_if_nothing_had_been(runtime, result);
  expect_replaced(result, 1, "rank 1");
}

TEST_F(Replaced, OneWhoseFunctionHangsIsEndedAndReplaced) {
  Runtime runtime;
  for (const std::uint32_t rank : {0U, 2U}) {
    const TrainResult result =
        train(runtime, {.at = At::kBeforeBackward, .ranks = {rank}, .step = 6, .signal = 0}, std::chrono::seconds{1});
    expect_as_if_nothing_had_been(runtime, result);
    expect_replaced(result, 1, "rank " + std::to_string(rank));
    EXPECT_SAYS(result.restarts[0].why, "does its function hang?");
  }
}

TEST_F(Replaced, OneThatIsLateGoesOnWithTheOthers) {
  Runtime runtime;
  const TrainResult result =
      train(runtime, {.at = At::kBeforeBackward, .ranks = {1}, .step = 6, .microseconds = 1'600'000, .signal = 0},
            std::chrono::seconds{1});
  expect_as_if_nothing_had_been(runtime, result);
  expect_replaced(result, 1, "a rank has come to the others too late, and all are there");
}

TEST_F(Replaced, TwoThatDieAtOnceAreReplaced) {
  Runtime runtime;
  const TrainResult result = train(runtime, {.at = At::kBeforeBackward, .ranks = {0, 2}, .step = 6});
  expect_as_if_nothing_had_been(runtime, result);
  ASSERT_GE(result.restarts.size(), 1U);
  for (const TrainResult::Restart& each : result.restarts) {
    EXPECT_TRUE(each.is_replacement) << each.why;
    EXPECT_EQ(each.why.find("rank 1"), std::string::npos) << each.why;
  }
}

TEST_F(Replaced, WhoDiesInItsPlaceIsReplacedUntilThatIsTooOften) {
  Runtime runtime;
  const std::string text = message_of<ActorDied>(
      [&] { train(runtime, {.at = At::kBeforeForward, .ranks = {1}, .step = 6, .replacement_too = true}); });
  EXPECT_SAYS(text, "training was begun once, had a rank replaced 3 times, and");
  EXPECT_SAYS(text, "rank 1");
}

/// The others have its state, and are told once more who there is.
TEST_F(Replaced, WhoDiesWhileItTakesTheStateIsReplaced) {
  Runtime runtime;
  const TrainResult result =
      train(runtime, {.at = At::kBeforeForward, .ranks = {1}, .step = 6, .marker = folder_.path() / "was there"});
  expect_as_if_nothing_had_been(runtime, result);
  expect_replaced(result, 2, "rank 1");
}

TEST_F(Replaced, AllThatDieBeginAgain) {
  Runtime runtime;
  const TrainResult result = train(runtime, {.at = At::kBeforeBackward, .ranks = {0, 1, 2}, .step = 6});
  expect_as_if_nothing_had_been(runtime, result);
  ASSERT_GE(result.restarts.size(), 1U);
  EXPECT_FALSE(result.restarts.back().is_replacement);
}

TEST_F(FitTest, WhereRanksHaveStateOfTheirOwnTheyBeginAgainAtTheCheckpoint) {
  Runtime runtime;
  Trainer trainer{runtime, options("own", 3)};
  const Mishap mishap{.at = At::kBeforeBackward, .ranks = {2}, .step = 7, .counts = true};
  const TrainResult result = fit<Images>(trainer, kImages, mishap);
  ASSERT_EQ(result.restarts.size(), 1U);
  EXPECT_FALSE(result.restarts[0].is_replacement);
  EXPECT_EQ(result.last("validation_own_steps"), kImageSteps);
}

TEST_F(FitTest, WhatKnowsItsRanksBeginsAgainAtTheCheckpoint) {
  Runtime runtime;
  const FitOptions how{.batch = 6, .epochs = 2, .tail = Tail::kDrop};
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Synced>(calm, how, std::uint64_t{0});
  Trainer trainer{runtime, options("killed", 2)};
  const TrainResult result = fit<Synced>(trainer, how, std::uint64_t{2});
  ASSERT_EQ(result.restarts.size(), 1U);
  EXPECT_FALSE(result.restarts[0].is_replacement);
  EXPECT_EQ(losses(result), losses(whole));
}

/// What is divided is gone on with from the newest checkpoint.
TEST_F(FitTest, ADividedOneThatDiesAtAnyFailpointLearnsTheSame) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{240});
  for (const FitStrategy strategy : {FitStrategy::kZero1, FitStrategy::kFullyShard}) {
    FitOptions how = kImages;
    how.strategy = strategy;
    const auto train = [&](const std::string& name, const Mishap& mishap) {
      TrainerOptions its = options(name, 3);
      if (mishap.failpoint.find(":stop") != std::string::npos) its.timeout = std::chrono::seconds{1};
      std::filesystem::remove_all(its.folder);
      Trainer trainer{runtime, std::move(its)};
      return fit<Images>(trainer, how, mishap);
    };
    const TrainResult calm = train("calm", {});
    ASSERT_EQ(calm.steps, kImageSteps);
    const auto die_at = [&](std::uint32_t rank, const std::string& where) {
      SCOPED_TRACE("rank " + std::to_string(rank) + " at " + where + ", strategy " +
                   std::to_string(static_cast<int>(strategy)));
      const TrainResult result = train("dies", {.at = At::kFailpoint, .ranks = {rank}, .step = 6, .failpoint = where});
      EXPECT_EQ(losses(result), losses(calm));
      ASSERT_EQ(result.restarts.size(), 1U) << "it did not come there";
      EXPECT_FALSE(result.restarts[0].is_replacement);
      EXPECT_SAYS(result.restarts[0].why, "rank " + std::to_string(rank));
    };
    for (const std::string where : {"data_given", "part_reduced", "result_taken", "step_committed", "step_told",
                                    "state_copied", "save_begun", "save_written", "save_said"}) {
      die_at(0, where + ":kill:0");
      die_at(2, where + ":kill:1");
    }
    for (const std::string where : {"saves_there", "manifest_written", "old_goes"}) die_at(0, where + ":kill:0");
    for (const std::string where : {"data_given", "part_reduced", "step_committed", "save_said"})
      die_at(2, where + ":stop:0");
  }
}

/// Rank, time and way by lot, over all of a training.
Mishap any_mishap(std::mt19937& random) {
  return {.at = At::kAnyTime,
          .ranks = {static_cast<std::uint32_t>(random() % 3)},
          .microseconds = random() % 24'000,
          .signal = random() % 5 == 0 ? SIGSTOP : SIGKILL};
}
std::string describe(int round, const Mishap& mishap) {
  return "round " + std::to_string(round) + ": rank " + std::to_string(mishap.ranks[0]) + " after " +
         std::to_string(mishap.microseconds) + " us" + (mishap.signal == SIGSTOP ? ", stopped" : "");
}

TEST_F(Replaced, AtAnyInstant) {
  Runtime runtime;
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int rounds = rounds_of_test(20);
  must_end_within(std::chrono::seconds{60 + 5 * rounds});
  int deaths = 0;
  int replacements = 0;
  for (int round = 0; round < rounds; ++round) {
    const Mishap mishap = any_mishap(random);
    SCOPED_TRACE(describe(round, mishap));
    const TrainResult result = train(runtime, mishap, std::chrono::seconds{1});
    expect_as_if_nothing_had_been(runtime, result);
    if (!result.restarts.empty()) {
      ++deaths;
      replacements += result.restarts[0].is_replacement ? 1 : 0;
      EXPECT_SAYS(result.restarts[0].why, "rank " + std::to_string(mishap.ranks[0]));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(deaths, rounds / 4) << "it was over before they died";
  // Where another rank has returned already there is nobody to have the state from.
  EXPECT_GE(replacements, deaths - rounds / 4);
}

TEST_F(FitTest, ADividedOneThatDiesAtAnyInstantLearnsTheSame) {
  Runtime runtime;
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  const int rounds = rounds_of_test(20) * 3 / 10;
  must_end_within(std::chrono::seconds{60 + 5 * rounds});
  FitOptions how = kImages;
  how.strategy = FitStrategy::kFullyShard;
  const auto train = [&](const Mishap& mishap) {
    TrainerOptions its = options("dies", 3);
    its.timeout = std::chrono::seconds{1};
    std::filesystem::remove_all(its.folder);
    Trainer trainer{runtime, std::move(its)};
    return fit<Images>(trainer, how, mishap);
  };
  const TrainResult calm = train({});
  ASSERT_EQ(calm.steps, kImageSteps);
  int deaths = 0;
  for (int round = 0; round < rounds; ++round) {
    const Mishap mishap = any_mishap(random);
    SCOPED_TRACE(describe(round, mishap));
    const TrainResult result = train(mishap);
    EXPECT_EQ(losses(result), losses(calm));
    EXPECT_EQ(checkpoints_in(folder_.path() / "dies" / "checkpoints").at(0).moment.step, kImageSteps);
    if (!result.restarts.empty()) {
      ++deaths;
      EXPECT_FALSE(result.restarts[0].is_replacement);
      EXPECT_SAYS(result.restarts[0].why, "rank " + std::to_string(mishap.ranks[0]));
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(deaths, rounds / 4) << "it was over before they died";
}

TEST_F(FitTest, GoesOnWhereItWasStopped) {
  Runtime runtime;
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Points>(calm, {.batch = 6, .epochs = 3}, std::uint64_t{0});
  for (const std::uint64_t stop : {5U, 9U, 20U}) {  // within an epoch, and at the end of one
    SCOPED_TRACE(stop);
    const std::string name = "stopped" + std::to_string(stop);
    Trainer first{runtime, options(name, 2)};
    TrainerOptions at_end = options(name, 2);
    at_end.save_every = 1;
    const TrainResult begun = fit<Points>(*std::make_unique<Trainer>(runtime, std::move(at_end)),
                                          {.batch = 6, .epochs = 3, .steps = stop}, std::uint64_t{0});
    EXPECT_EQ(begun.steps, stop);
    const TrainResult rest = fit<Points>(first, {.batch = 6, .epochs = 3}, std::uint64_t{0});
    ASSERT_EQ(rest.reports.front().step, stop + 1);
    ASSERT_EQ(rest.steps, whole.steps);
    for (std::size_t i = stop; i < whole.steps; ++i) EXPECT_EQ(losses(rest)[i - stop], losses(whole)[i]) << i;
  }
}

TEST_F(FitTest, GoesOnOnOtherRanksByAnotherStrategy) {
  Runtime runtime;
  constexpr std::uint64_t kBefore = 5;
  constexpr std::uint64_t kFull = 8;  // steps of twelve samples, of an epoch's 101
  Trainer calm{runtime, options("calm", 1)};
  const TrainResult whole = fit<Points>(calm, {.batch = 12, .epochs = 2}, std::uint64_t{0});
  for (const Tail tail : {Tail::kUneven, Tail::kDrop, Tail::kPad}) {
    for (const FitStrategy first : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
      const FitStrategy second = first == FitStrategy::kCopies ? FitStrategy::kFullyShard : FitStrategy::kZero1;
      SCOPED_TRACE("tail " + std::to_string(static_cast<int>(tail)) + ", from strategy " +
                   std::to_string(static_cast<int>(first)));
      const std::string name = std::to_string(static_cast<int>(tail)) + "-" + std::to_string(static_cast<int>(first));
      Trainer two{runtime, options(name, 2)};
      fit<Points>(two, {.batch = 6, .epochs = 2, .steps = kBefore, .strategy = first, .tail = tail}, std::uint64_t{0});
      Trainer three{runtime, options(name, 3)};
      const TrainResult rest =
          fit<Points>(three, {.batch = 4, .epochs = 2, .strategy = second, .tail = tail}, std::uint64_t{0});
      EXPECT_EQ(rest.reports.front().step, kBefore + 1);
      EXPECT_EQ(rest.steps, whole.steps);
      EXPECT_EQ(rest.reports.back().epoch, 1U);
      // At an epoch's end some samples are left out, or come twice.
      const std::uint64_t same = tail == Tail::kUneven ? whole.steps : kFull;
      for (std::uint64_t i = kBefore; i < same; ++i)
        EXPECT_NEAR(losses(rest)[i - kBefore], losses(whole)[i], 1e-9) << i;
    }
  }
}

TEST_F(FitTest, AnotherSeedIsAnotherTraining) {
  Runtime runtime;
  const auto losses_of = [&](const std::string& name, std::uint64_t seed) {
    TrainerOptions its = options(name, 2);
    its.seed = seed;
    Trainer trainer{runtime, std::move(its)};
    return losses(fit<Points>(trainer, {.batch = 6}, std::uint64_t{0}));
  };
  const std::vector<double> first = losses_of("first", 3);
  EXPECT_EQ(losses_of("same", 3), first);
  const std::vector<double> other = losses_of("other", 4);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NE(other[i], first[i]) << i;
}

TEST_F(FitTest, GradientsAreNoLongerThanTheyMayBe) {
  Runtime runtime;
  int tries = 0;
  const auto expect_steps_of = [&](double length, double clip_norm, FitStrategy strategy, std::size_t ranks) {
    SCOPED_TRACE("strategy " + std::to_string(static_cast<int>(strategy)) + " on " + std::to_string(ranks));
    Trainer trainer{runtime, options("steep" + std::to_string(++tries), ranks)};
    const FitOptions how{.batch = 6, .epochs = 0, .steps = 3, .strategy = strategy};
    const TrainResult result = fit<Steep>(trainer, how, clip_norm);
    ASSERT_EQ(result.steps, 3U);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(losses(result)[i], -1000 * length * static_cast<double>(i), length / 100);
  };
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    expect_steps_of(0.5, 0.5, each, 2);
    expect_steps_of(1000, 0, each, 2);
  }
  expect_steps_of(0.5, 0.5, FitStrategy::kCopies, 1);
}

TEST_F(FitTest, SamplesPerSecondAreThoseOfAllRanks) {
  Runtime runtime;
  Trainer trainer{runtime, options("slow", 2)};
  const TrainResult result = fit<Slow>(trainer, {.batch = 6, .epochs = 2, .validate_every = 0}, std::uint64_t{0});
  ASSERT_EQ(result.steps, 18U);
  double seconds = 0;
  for (std::size_t i = 1; i < result.steps; ++i) {
    const double samples = i % 9 == 8 ? Points::kTraining % 12 : 12;
    seconds += samples / *result.reports[i].metrics.find("samples_per_second");
  }
  const double all = result.reports.back().seconds - result.reports.front().seconds;
  EXPECT_NEAR(seconds, all, all / 4);
}

TEST_F(FitTest, ReportsWhatPeopleWantToKnow) {
  Runtime runtime;
  TrainResult result;
  for (const FitStrategy each : {FitStrategy::kFullyShard, FitStrategy::kCopies}) {
    SCOPED_TRACE(static_cast<int>(each));
    Trainer trainer{runtime, options("phases" + std::to_string(static_cast<int>(each)), 2)};
    const FitOptions how{
        .batch = 6, .epochs = 1, .strategy = each, .report_phases = true, .flops_per_sample = 1000, .peak_flops = 1e6};
    const double began = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    result = fit<Points>(trainer, how, std::uint64_t{0});
    double sum = 0;
    for (const char* const name : {"data_s", "forward_s", "backward_s", "communication_s", "optimizer_s"}) {
      for (const TrainReport& report : result.reports) {
        const double* const seconds = report.metrics.find(name);
        ASSERT_NE(seconds, nullptr) << name;
        EXPECT_GE(*seconds, 0) << name << " of step " << report.step;
        sum += *seconds;
      }
    }
    EXPECT_GT(sum, 0);
    EXPECT_LT(sum, std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() - began);
  }
  EXPECT_TRUE(result.last("samples_per_second"));
  EXPECT_NEAR(*result.last("mfu"), 1000 * *result.last("samples_per_second") / 2e6, 1e-6);
  EXPECT_NEAR(*result.reports[1].metrics.find("lr"), 0.03 * Points::schedule()(1), 1e-12);
}

TEST_F(FitTest, WhatAValidationWaitsForIsNoPhaseOfTheNextStep) {
  Runtime runtime;
  Trainer trainer{runtime, options("late", 2)};
  const TrainResult result = fit<LateInValidation>(
      trainer, {.batch = 6, .epochs = 2, .strategy = FitStrategy::kFullyShard, .report_phases = true},
      std::uint64_t{0});
  ASSERT_EQ(result.steps, 18U);
  for (const TrainReport& report : result.reports) {
    double sum = 0;
    for (const char* const name : {"data_s", "forward_s", "backward_s", "communication_s", "optimizer_s"}) {
      EXPECT_GE(*report.metrics.find(name), 0) << name << " of step " << report.step;
      sum += *report.metrics.find(name);
    }
    const double late = std::chrono::duration<double>(LateInValidation::kLate).count() / 2;  // a mean over two ranks
    EXPECT_LT(sum, late) << report.step;
  }
}

TEST_F(FitTest, LearnsInHalvesByEveryStrategy) {
  Runtime runtime;
  for (const FitStrategy each :
       {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    Trainer trainer{runtime, options("halves" + std::to_string(static_cast<int>(each)), 2)};
    const TrainResult result = fit<Halves>(trainer, {.batch = 8, .epochs = 15, .strategy = each, .bf16 = true});
    EXPECT_LT(losses(result).back(), 0.5 * losses(result).front());
  }
}

TEST_F(FitTest, FewerSamplesThanRanksAreRefused) {
  Runtime runtime;
  Trainer trainer{runtime, options("few", 3)};
  const auto refusal = [&](std::int64_t training) {
    return message_of<InvalidArgument>([&] { fit<TooFew>(trainer, {.batch = 2}, training); });
  };
  EXPECT_SAYS(refusal(2), "rank 0");
  EXPECT_SAYS(refusal(2), "the dataset has 2 samples, which are fewer than the 3 ranks");
  EXPECT_SAYS(refusal(30), "the validation data has 2 samples, which are fewer than the 3 ranks");
}

TEST_F(FitTest, WhatIsNoNumberEndsItBeforeAParameterFollows) {
  Runtime runtime;
  std::uint32_t tries = 0;
  const auto ends = [&]<class E>(E*, bool has_loss, bool clips, bool checks, FitStrategy strategy, std::size_t ranks) {
    TrainerOptions its = options("broken" + std::to_string(++tries), ranks);
    its.metric = "validation_score";
    its.save_every = 1;
    const std::filesystem::path saved = its.folder / "checkpoints";
    Trainer trainer{runtime, std::move(its)};
    const FitOptions how{.batch = 4, .epochs = 2, .strategy = strategy, .check_numbers = checks};
    const std::string text = message_of<E>([&] { fit<Broken>(trainer, how, has_loss, clips); });
    EXPECT_EQ(checkpoints_in(saved).at(0).moment.step, 3U) << text;
    return text;
  };
  const auto fails = [&](bool has_loss, bool clips, FitStrategy strategy) {
    return ends(static_cast<UserError*>(nullptr), has_loss, clips, false, strategy, 3);
  };
  const auto fails_checked = [&](FitStrategy strategy, std::size_t ranks) {
    return ends(static_cast<FailedPrecondition*>(nullptr), true, false, true, strategy, ranks);
  };
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    for (const bool clips : {false, true}) {
      EXPECT_SAYS(fails(false, clips, each), "\"loss\" of rank 1 is no finite number any more at step 4");
    }
    EXPECT_SAYS(fails(true, true, each), "the length of all gradients is no finite number in step 4");
    EXPECT_SAYS(fails_checked(each, 3), "in step 4 the gradient of \"bias\"");
  }
  EXPECT_SAYS(fails_checked(FitStrategy::kCopies, 3), "on rank 1");
  EXPECT_SAYS(fails_checked(FitStrategy::kCopies, 1), "in step 4 the gradient of \"bias\"");
}

TEST_F(FitTest, AGradientThatIsNoNumberIsInNoCheckpoint) {
  Runtime runtime;
  const auto fails = [&](const std::string& name, FitStrategy strategy, std::size_t ranks, bool checks) {
    TrainerOptions its = options(name, ranks);
    its.metric = "validation_score";
    its.save_every = 2;
    const std::filesystem::path saved = its.folder / "checkpoints";
    Trainer trainer{runtime, std::move(its)};
    const FitOptions how{.batch = 4, .epochs = 2, .strategy = strategy, .check_numbers = checks};
    const std::string text = message_of<FailedPrecondition>([&] { fit<Broken>(trainer, how, true, false); });
    EXPECT_EQ(checkpoints_in(saved).at(0).moment.step, 2U) << text;
    EXPECT_SAYS(text, "in step 4 the gradient of \"bias\"");
    return text;
  };
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(static_cast<int>(each));
    fails("poisoned" + std::to_string(static_cast<int>(each)), each, 3, false);
  }
  fails("alone", FitStrategy::kCopies, 1, false);
  // Steps are the training's, also where it goes on.
  EXPECT_SAYS(fails("poisoned" + std::to_string(static_cast<int>(FitStrategy::kCopies)), FitStrategy::kCopies, 3, true),
              "on rank 1");
}

TEST_F(FitTest, DividesWhatDoesNotFit) {
  Runtime runtime;
  const auto train = [&](const std::string& name, std::uint64_t memory) {
    Trainer trainer{runtime, options(name, 2)};
    return fit<Points>(trainer, {.batch = 6, .epochs = 1, .memory = memory}, std::uint64_t{0});
  };
  const auto log_of = [this](const std::string& name) {
    std::ifstream log{folder_.path() / name / "logs/rank-0.log"};
    return std::string{std::istreambuf_iterator<char>{log}, {}};
  };
  const TrainResult roomy = train("roomy", 1'000'000);
  EXPECT_SAYS(log_of("roomy"), "99 parameters on 2 ranks");
  EXPECT_SAYS(log_of("roomy"), "* copies        3.1 KiB\n");
  const TrainResult tight = train("tight", 2'800);
  // Two layers, of 48 and 51 doubles, are there at once.
  EXPECT_SAYS(log_of("tight"), "of what is divided 0.8 KiB of parameters and 0.8 KiB of gradients are there at once");
  EXPECT_SAYS(log_of("tight"), "  copies        3.1 KiB, too much\n");
  EXPECT_SAYS(log_of("tight"), "* ZeRO-1        2.3 KiB\n");
  EXPECT_SAYS(log_of("tight"), "  ZeRO-2        2.7 KiB\n");
  EXPECT_SAYS(log_of("tight"), "  fully sharded 3.1 KiB, too much\n");
  EXPECT_SAYS(log_of("tight"), "gathered MiB");
  ASSERT_EQ(tight.steps, roomy.steps);
  for (std::size_t i = 0; i < roomy.steps; ++i) EXPECT_NEAR(losses(tight)[i], losses(roomy)[i], 1e-9) << i;
}

TEST_F(FitTest, EndsWhereItsOptionsSay) {
  Runtime runtime;
  const auto steps_of = [&](const std::string& name, const FitOptions& how) {
    Trainer trainer{runtime, options(name, 1)};
    const TrainResult result = fit<Points>(trainer, how, std::uint64_t{0});
    EXPECT_TRUE(result.last(kValidated)) << "the last step is validated";
    EXPECT_EQ(checkpoints_in(folder_.path() / name / "checkpoints").at(0).moment.step, result.steps);
    return result.steps;
  };
  EXPECT_EQ(steps_of("epochs", {.batch = 50, .epochs = 2}), 6U);
  EXPECT_EQ(steps_of("steps", {.batch = 50, .epochs = 0, .steps = 11}), 11U);
  EXPECT_EQ(steps_of("both", {.batch = 50, .epochs = 2, .steps = 5}), 5U);
  EXPECT_EQ(steps_of("either", {.batch = 50, .epochs = 2, .steps = 50}), 6U);
  Trainer endless{runtime, options("endless", 1)};
  const auto refusal = [&](const FitOptions& how) {
    return message_of<InvalidArgument>([&] { fit<Points>(endless, how, std::uint64_t{0}); });
  };
  EXPECT_SAYS(refusal({.epochs = 0}), "never ends");
  EXPECT_SAYS(refusal({.accumulate = 0}), "FitOptions::accumulate");
  EXPECT_SAYS(refusal({.flops_per_sample = 1}), "peak_flops");
  EXPECT_SAYS(refusal({.peak_flops = 1}), "flops_per_sample");
}

TEST(StrategyChoice, TakesWhatFits) {
  const auto of = [](std::uint64_t memory) { return choose_strategy({.parameters = 1'000'000}, 4, memory); };
  EXPECT_EQ(of(16'000'000).strategy, FitStrategy::kCopies);
  EXPECT_EQ(of(15'999'999).strategy, FitStrategy::kZero1);
  EXPECT_EQ(of(10'000'000).strategy, FitStrategy::kZero1);
  EXPECT_EQ(of(9'999'999).strategy, FitStrategy::kZero2);
  EXPECT_EQ(of(7'000'000).strategy, FitStrategy::kZero2);
  EXPECT_EQ(of(6'999'999).strategy, FitStrategy::kFullyShard);
  EXPECT_SAYS(of(6'999'999).arithmetic, "1000000 parameters on 4 ranks: 3.8 MiB of parameters");
  EXPECT_SAYS(of(6'999'999).arithmetic, "* fully sharded 3.8 MiB\n");
  EXPECT_SAYS(of(6'999'999).arithmetic, "  copies        15.3 MiB, too much\n");
  EXPECT_EQ(choose_strategy({.parameters = 1'000'000}, 1, 1).strategy, FitStrategy::kCopies);
  // Units that are whole for a while are counted.
  const auto in_units = [](std::uint64_t memory) {
    return choose_strategy({.parameters = 1'000'000, .gathered_bytes = 600'000, .gradient_bytes = 400'000}, 4, memory);
  };
  EXPECT_EQ(in_units(7'400'000).strategy, FitStrategy::kZero2);
  EXPECT_EQ(in_units(7'399'999).strategy, FitStrategy::kFullyShard);
  EXPECT_SAYS(in_units(5'000'000).arithmetic, "* fully sharded 4.8 MiB\n");
  EXPECT_SAYS(in_units(4'999'999).arithmetic, "* fully sharded 4.8 MiB, too much\n");
  // Of a few large units ZeRO takes less.
  const FitSize one_unit{.parameters = 1'000'000, .gathered_bytes = 12'000'000, .gradient_bytes = 8'000'000};
  EXPECT_EQ(choose_strategy(one_unit, 4, 1).strategy, FitStrategy::kZero1);
  // A small part is trained of much that is frozen.
  const auto frozen = [](std::uint64_t memory) {
    return choose_strategy({.parameters = 1'000'000, .frozen_bytes = 100'000'000}, 4, memory);
  };
  EXPECT_EQ(frozen(116'000'000).strategy, FitStrategy::kCopies);
  EXPECT_EQ(frozen(106'999'999).strategy, FitStrategy::kFullyShard);
  EXPECT_SAYS(frozen(1).arithmetic, "95.4 MiB that is not trained");
}

}  // namespace
}  // namespace pharos::ml::fitting
