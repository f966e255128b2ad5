// Passes over data with a trained model: tests and predictions, on any number of ranks, by each strategy.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/passes.hpp>
#include <pharos/pharos.hpp>

#include "fitting.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

/// The points of a training, with a test and predictions. Says in its options what is wrong with it.
struct Tried : Points {
  static constexpr std::int64_t kTest = 41;
  explicit Tried(std::string how) : Points{0}, how_{std::move(how)} {}

  DatasetPtr test_data() override { return how_ == "nothing" ? nullptr : samples(3, how_ == "one" ? 1 : kTest); }
  Metrics test_step(const Batch& batch) override {
    demand(context().step() == 0, "nothing is trained in a test");
    if (how_ == "dies" && context().rank() == 1 && context().attempt() == 0) ::kill(::getpid(), SIGKILL);
    const Tensor out = module_of().forward(tensor_of(batch["point"]));
    ranks_.add(out.select(1, 2), tensor_of(batch["class"]).eq(2).to(torch::kDouble));
    log("mean", out.mean());
    if (how_ == "unnamed") return {{"", 7}};
    return Points::validation_step(batch);
  }
  Tensor predict_step(const Batch& batch) override {
    demand(!module().is_training() && !torch::GradMode::is_enabled(), "nothing is trained in a prediction");
    if (how_ == "dies" && context().rank() == 1 && context().attempt() == 0) ::kill(::getpid(), SIGKILL);
    const Tensor out = module_of().forward(tensor_of(batch["point"]));
    if (how_ == "no rows") return out.sum();
    if (how_ == "too few") return out.slice(0, 0, out.size(0) - 1);
    if (how_ == "differs") return context().rank() == 0 ? out : out.to(torch::kFloat);
    if (how_ == "default") return Learner::predict_step(batch);
    return how_ == "classes" ? out.argmax(1) : out;
  }
  std::vector<NamedMeasure> measures() override { return {{"auc", &ranks_}}; }

 private:
  torch::nn::SequentialImpl& module_of() { return dynamic_cast<torch::nn::SequentialImpl&>(module()); }

  const std::string how_;
  Auc ranks_;
};

namespace {

class PassesTest : public FitTest {
 protected:
  /// libtorch would keep a thread for what the test itself computes.
  PassesTest() { torch::set_num_threads(1); }
  /// A model that was trained for a short time.
  std::vector<NamedArray> model(Runtime& runtime) const {
    Trainer trainer{runtime, options("trained", 1)};
    return fit<Points>(trainer, {.batch = 12, .epochs = 2}, std::uint64_t{0}).model;
  }
  /// What the model says of the test's points, computed here.
  static Tensor outputs(const std::vector<NamedArray>& model) {
    Tried here{""};
    load_arrays(here.module(), model);
    here.module().eval();
    const torch::NoGradGuard no_grad;
    Loader loader{here.test_data(), {.batch = Tried::kTest, .order = Order::in_turn(Tried::kTest)}};
    return here.predict_step(*loader.next()).clone();
  }
};

TEST_F(PassesTest, ATestCountsEachSampleOnceByEveryStrategy) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const auto trained = model(runtime);
  Trainer alone{runtime, options("alone", 1)};
  const Metrics whole = test<Tried>(alone, trained, {.batch = Tried::kTest}, std::string{});
  EXPECT_EQ(whole.entries().size(), 4U);
  EXPECT_GT(*whole.find("test_auc"), 0.5);
  EXPECT_NEAR(*whole.find("test_mean"), outputs(trained).mean().item<double>(), 1e-12);
  for (const FitStrategy strategy : {FitStrategy::kByMemory, FitStrategy::kCopies, FitStrategy::kZero1,
                                     FitStrategy::kZero2, FitStrategy::kFullyShard}) {
    Trainer three{runtime, options("three", 3)};
    const Metrics all = test<Tried>(three, trained, {.batch = 5, .strategy = strategy}, std::string{});
    for (const auto& [name, value] : whole.entries()) {
      ASSERT_NE(all.find(name), nullptr) << name;
      EXPECT_NEAR(*all.find(name), value, 1e-12) << name << " by " << name_of(strategy);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "alone"));
}

TEST_F(PassesTest, PredictionsComeInTheOrderOfTheData) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const auto trained = model(runtime);
  const Tensor expected = outputs(trained);
  for (const std::size_t ranks : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    Trainer trainer{runtime, options("predicts", ranks)};
    const Array all = predict<Tried>(trainer, trained, {.batch = 4}, std::string{});
    EXPECT_TRUE(tensor_of(all).allclose(expected, 1e-12, 1e-12)) << ranks << " ranks";
    const Array classes =
        predict<Tried>(trainer, trained, {.batch = 4, .strategy = FitStrategy::kFullyShard}, std::string{"classes"});
    EXPECT_EQ(classes.shape(), std::vector<std::int64_t>{Tried::kTest});
    EXPECT_TRUE(tensor_of(classes).equal(expected.argmax(1))) << ranks << " ranks";
  }
}

TEST_F(PassesTest, TheBestCheckpointIsTestedFromItsFolder) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  TrainerOptions keeps = options("kept", 2);
  keeps.keep_best = 1;
  keeps.metric = kValidated;
  keeps.is_better_lower = false;
  Trainer trainer{runtime, keeps};
  const TrainResult result = fit<Points>(trainer, {.batch = 12, .epochs = 3}, std::uint64_t{0});
  const auto saved = checkpoints_in(folder_.path() / "kept/checkpoints");
  ASSERT_FALSE(saved.empty());
  const Metrics newest =
      test<Tried>(trainer, tensors_of_checkpoint(saved.front().path), {.batch = 8}, std::string{"unnamed"});
  EXPECT_EQ(*newest.find("test_accuracy"), 7);
  const Metrics last = test<Tried>(trainer, tensors_of_checkpoint(saved.front().path), {.batch = 8}, std::string{});
  const Metrics same = test<Tried>(trainer, result.model, {.batch = 8}, std::string{});
  EXPECT_EQ(*last.find("test_loss"), *same.find("test_loss"));
  EXPECT_EQ(checkpoints_in(folder_.path() / "kept/checkpoints").size(), saved.size());
}

TEST_F(PassesTest, APassWhoseRankDiesBeginsAgain) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const auto trained = model(runtime);
  Trainer trainer{runtime, options("dies", 2)};
  const Metrics all = test<Tried>(trainer, trained, {.batch = 5}, std::string{"dies"});
  const Metrics undisturbed = test<Tried>(trainer, trained, {.batch = 5}, std::string{});
  EXPECT_EQ(*all.find("test_loss"), *undisturbed.find("test_loss"));
  const Array rows = predict<Tried>(trainer, trained, {.batch = 5}, std::string{"dies"});
  EXPECT_TRUE(tensor_of(rows).allclose(outputs(trained), 1e-12, 1e-12));
}

TEST_F(PassesTest, WhatIsWrongIsSaid) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  const auto trained = model(runtime);
  const auto message = [&](std::size_t ranks, const std::string& how, bool predicts) -> std::string {
    Trainer trainer{runtime, options("wrong", ranks)};
    auto arrays = trained;
    if (how == "another model") arrays.pop_back();
    try {
      if (predicts) {
        static_cast<void>(predict<Tried>(trainer, arrays, {.batch = 5}, how));
      } else {
        static_cast<void>(test<Tried>(trainer, arrays, {.batch = 5}, how));
      }
    } catch (const Exception& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_SAYS(message(1, "nothing", false), "the learner has no test data");
  EXPECT_SAYS(message(1, "nothing", true), "the learner has no prediction data");
  EXPECT_SAYS(message(2, "one", false), "the test data has 1 samples, which are fewer than the 2 ranks");
  EXPECT_SAYS(message(2, "another model", false), "2.bias");
  EXPECT_SAYS(message(2, "no rows", true), "or are no rows");
  EXPECT_SAYS(message(1, "too few", true), "predict_step() has returned 4 rows for a batch of 5 samples");
  EXPECT_SAYS(message(2, "differs", true), "differ in type or shape");
  EXPECT_SAYS(message(1, "default", true), "Give it a predict_step().");
}

}  // namespace
}  // namespace pharos::ml::fitting
