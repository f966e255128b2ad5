// What a learner may have besides a loss: settings for each parameter, a rule of its own, moving means, measures, means
// that it logs, and callbacks. All of it is the same by every strategy, on any number of ranks, and after a death.

#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "fitting.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

/// Divides the gradient by the root of a mean of its squares.
class RmsProp : public UpdateRule {
 public:
  double lr() const override { return 0.01; }
  std::vector<std::string> names() const override { return {"square"}; }
  void update(const Tensor& values, const Tensor& gradient, std::span<const Tensor> kept,
              const Step& step) const override {
    kept[0].mul_(0.9).addcmul_(gradient, gradient, 0.1);
    values.addcdiv_(gradient, kept[0].sqrt().add_(1e-3), -step.lr);
  }
};

/// Logs what it is told, and halves the rate after the second epoch and before the third one.
class Notes : public FitCallback {
 public:
  void at_begin(FitControl& control) override { says_ = "b" + std::to_string(control.context().step()); }
  void at_epoch_begin(FitControl& control) override {
    says_ += "e" + std::to_string(control.epoch());
    if (control.epoch() == 2) control.set_rate_factor(control.rate_factor() / 2);
  }
  void before_step(FitControl&) override { ++steps_; }
  void after_step(FitControl& control, const Metrics& metrics) override {
    demand(metrics.find("loss") != nullptr, "a callback sees the loss");
    demand(metrics.find("share") != nullptr, "a callback sees what the learner has logged");
    control.log("doubled", 2 * *metrics.find("loss"));
  }
  void at_epoch_end(FitControl& control, const Metrics& metrics) override {
    demand(metrics.find("validation_auc") != nullptr, "a callback sees the validation");
    control.log("ended", static_cast<double>(control.epoch()));
    if (control.epoch() == 1) control.set_rate_factor(0.5);
  }
  void at_end(FitControl& control) override {
    // The last one: the first step of an epoch was done again.
    const bool is_whole = says_ == "b0e0e1e2" || says_ == "b20" || says_ == "b0e0e1e2e2";
    demand(is_whole || control.context().attempt() != 0 || control.context().is_replacement(), says_.c_str());
  }
  void add_to_state(State& state) override { state.add("noted", steps_); }

 private:
  std::string says_{};
  std::uint64_t steps_ = 0;
};

/// Two classes of points. One of its ranks may be killed in a step.
struct Clicks : Learner {
  static constexpr std::uint64_t kSteps = 27;  // three epochs of nine steps with twelve samples
  explicit Clicks(std::uint64_t killed_in) : killed_in_{killed_in} { net_->to(torch::kDouble); }

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return samples(1, 101); }
  DatasetPtr validation_data() override { return samples(2, 37); }
  Tensor training_step(const Batch& batch) override {
    const bool is_first = context().attempt() == 0 && !context().is_replacement();
    if (is_first && context().rank() == 1 && context().step() + 1 == killed_in_) ::kill(::getpid(), SIGKILL);
    const Tensor out = net_->forward(tensor_of(batch["point"])).squeeze(1);
    const Tensor clicked = tensor_of(batch["clicked"]);
    log("share", out.gt(0).to(torch::kDouble).mean());
    return torch::binary_cross_entropy_with_logits(out, clicked);
  }
  Metrics validation_step(const Batch& batch) override {
    const Tensor out = net_->forward(tensor_of(batch["point"])).squeeze(1);
    const Tensor clicked = tensor_of(batch["clicked"]);
    auc_.add(out, clicked);
    f1_.add(out.gt(0), clicked);
    log("clicked", clicked.mean());
    return {{"loss", torch::binary_cross_entropy_with_logits(out, clicked).item<double>()}};
  }
  std::vector<NamedMeasure> measures() override { return {{"auc", &auc_}, {"f1", &f1_}}; }
  Optimization configure_optimizers() override {
    return {.rule = AdamW{.lr = 0.02}, .settings = settings, .ema_decay = 0.9};
  }
  std::vector<std::shared_ptr<FitCallback>> callbacks() override { return {std::make_shared<Notes>()}; }

 private:
  static ParameterSettings settings(const WholeParameter& parameter) {
    demand(!parameter.shape.empty(), "the shape is that of the whole parameter");
    if (parameter.name.starts_with("0.")) return {.rule = std::make_shared<RmsProp>()};
    if (parameter.name.ends_with("bias")) return {.lr_factor = 0.1};
    return {.weight_decay = 0.1};
  }
  static DatasetPtr samples(std::uint64_t seed, std::int64_t count) {
    auto random = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor points = torch::randn({count, 2}, random, torch::kDouble);
    const Tensor noise = torch::randn({count}, random, torch::kDouble);
    return rows_of(
        {{"point", array_of(points)}, {"clicked", array_of((points.sum(1) + noise).gt(0).to(torch::kDouble))}});
  }

  const std::uint64_t killed_in_;
  torch::nn::Sequential net_{torch::nn::Linear(2, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)};
  Auc auc_;
  F1 f1_;
};

/// A learner of one number, which says in its options what is wrong with it.
struct Odd : Learner {
  explicit Odd(std::string how) : how_{std::move(how)} {}

  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({12, 1}))}}); }
  Tensor training_step(const Batch& batch) override {
    if (how_ == "reserved") log("lr", 1.0);
    if (how_ == "vector") log("vector", torch::ones({2}));
    return net_->forward(tensor_of(batch["x"])).square().mean();
  }
  Optimization configure_optimizers() override {
    if (how_ == "both") return {.weight_decay = 1, .settings = decaying_matrices(1)};
    return {};
  }
  std::vector<std::shared_ptr<FitCallback>> callbacks() override {
    if (how_ == "plateau") return {lower_rate_on({.factor = 2})};
    return {};
  }

 private:
  const std::string how_;
  torch::nn::Linear net_{1, 1};
};

/// Large enough that its model goes through the object store, in types that differ.
struct Large : Learner {
  torch::nn::Module& module() override { return *net_; }
  DatasetPtr training_data() override { return rows_of({{"x", array_of(torch::ones({12, 300}))}}); }
  Tensor training_step(const Batch& batch) override { return net_->forward(tensor_of(batch["x"])).square().mean(); }
  static torch::nn::Sequential make() {
    torch::nn::Sequential net{torch::nn::Linear(300, 299), torch::nn::BatchNorm1d(299), torch::nn::Linear(299, 3)};
    net->parameters()[0].requires_grad_(false);
    return net;
  }

 private:
  torch::nn::Sequential net_ = make();
};

/// Its validations are 5, 4, 4, 4, 4, …; the rate follows them, and rank 1 stops the training after the eighth step.
struct OnAPlateau : Points {
  using Points::Points;
  Metrics validation_step(const Batch&) override { return {{"loss", context().step() == 1 ? 5 : 4}}; }
  Optimization configure_optimizers() override { return {.rule = Sgd{.lr = 1}}; }
  std::vector<std::shared_ptr<FitCallback>> callbacks() override {
    struct Stops : FitCallback {
      void after_step(FitControl& control, const Metrics&) override {
        if (control.context().rank() == 1 && control.context().step() == 8) control.stop();
      }
    };
    return {lower_rate_on({.factor = 0.1, .patience = 2, .rate_factor_min = 0.05}), std::make_shared<Stops>()};
  }
};

namespace {

void expect_alike(const TrainResult& result, const TrainResult& whole, double tolerance) {
  ASSERT_EQ(result.steps, whole.steps);
  ASSERT_FALSE(result.reports.empty());
  const std::size_t missing = whole.reports.size() - result.reports.size();  // before it was resumed
  for (std::size_t i = 0; i < result.reports.size(); ++i) {
    const Metrics& expected = whole.reports[missing + i].metrics;
    for (const auto& [name, value] : expected.entries()) {
      if (name == "samples_per_second") continue;
      const double* const own = result.reports[i].metrics.find(name);
      ASSERT_NE(own, nullptr) << name;
      EXPECT_NEAR(*own, value, tolerance) << name << " of step " << result.reports[i].step;
    }
    EXPECT_EQ(result.reports[i].metrics.entries().size(), expected.entries().size());
  }
}

TEST_F(FitTest, AllThatALearnerHasIsTheSameByEveryStrategy) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  Trainer alone{runtime, options("alone", 1)};
  const TrainResult one = fit<Clicks>(alone, {.batch = 12, .epochs = 3}, std::uint64_t{0});
  ASSERT_EQ(one.steps, Clicks::kSteps);
  EXPECT_GT(*one.last("validation_auc"), 0.7);
  EXPECT_NEAR(*one.last("doubled"), 2 * *one.last("loss"), 1e-12);
  EXPECT_EQ(*one.last("ended"), 2);
  EXPECT_EQ(*one.reports[17].metrics.find("lr"), 0.02);
  EXPECT_EQ(*one.reports[18].metrics.find("lr"), 0.005);
  for (const char* each : {"share", "validation_clicked", "validation_f1", "validation_loss"})
    EXPECT_TRUE(one.last(each));
  for (const std::size_t ranks : {2U, 3U}) {
    for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kFullyShard}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::string{name_of(each)});
      Trainer trainer{runtime, options(std::to_string(ranks) + std::string{name_of(each)}, ranks)};
      const FitOptions how{.batch = 12 / ranks, .epochs = 3, .strategy = each};
      expect_alike(fit<Clicks>(trainer, how, std::uint64_t{0}), one, 1e-9);
    }
  }
}

TEST_F(FitTest, NothingThatALearnerHasIsLostWithARank) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{120});
  Trainer calm{runtime, options("calm", 2)};
  const TrainResult whole = fit<Clicks>(calm, {.batch = 6, .epochs = 3}, std::uint64_t{0});
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
    for (const std::uint64_t step : {7U, 19U, 20U}) {  // 18 is the last of its epoch, after which the rate is halved
      SCOPED_TRACE(std::string{name_of(each)} + ", killed in step " + std::to_string(step));
      Trainer trainer{runtime, options(std::string{name_of(each)} + std::to_string(step), 2)};
      const FitOptions how{.batch = 6, .epochs = 3, .strategy = each};
      const TrainResult result = fit<Clicks>(trainer, how, step);
      ASSERT_EQ(result.interruptions.size(), 1U);
      EXPECT_EQ(result.interruptions[0].is_replacement, each == FitStrategy::kCopies);
      expect_alike(result, whole, 1e-9);
    }
  }
}

TEST_F(FitTest, WhatALearnerHasResumesOnOtherRanks) {
  Runtime runtime;
  Trainer calm{runtime, options("calm", 1)};
  const TrainResult whole = fit<Clicks>(calm, {.batch = 12, .epochs = 3}, std::uint64_t{0});
  Trainer two{runtime, options("resumed", 2)};
  fit<Clicks>(two, {.batch = 6, .epochs = 3, .steps = 20, .strategy = FitStrategy::kCopies}, std::uint64_t{0});
  Trainer three{runtime, options("resumed", 3)};
  const FitOptions rest{.batch = 4, .epochs = 3, .strategy = FitStrategy::kFullyShard};
  const TrainResult result = fit<Clicks>(three, rest, std::uint64_t{0});
  EXPECT_EQ(result.reports.front().step, 21U);
  expect_alike(result, whole, 1e-9);
}

TEST_F(FitTest, TheResultHasTheModel) {
  torch::set_num_threads(1);  // the program that tests has no threads of its own for libtorch
  TrainResult result;
  {
    Runtime runtime;
    for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kZero1, FitStrategy::kFullyShard}) {
      SCOPED_TRACE(name_of(each));
      Trainer trainer{runtime, options(std::string{name_of(each)}, 2)};
      result = fit<Clicks>(trainer, {.batch = 6, .epochs = 3, .strategy = each}, std::uint64_t{0});
      Clicks clicks{0};
      load_arrays(clicks.module(), result.model);
      // It is what was validated last: the moving means.
      const Dataset& data = *clicks.validation_data();
      Loader loader{clicks.validation_data(), {.batch = data.size(), .order = Order::in_turn(data.size())}};
      const Batch all = *loader.next();
      const torch::NoGradGuard no_grad;
      const Tensor out = static_cast<torch::nn::SequentialImpl&>(clicks.module()).forward(tensor_of(all["point"]));
      const Tensor loss = torch::binary_cross_entropy_with_logits(out.squeeze(1), tensor_of(all["clicked"]));
      EXPECT_NEAR(loss.item<double>(), *result.last("validation_loss"), 1e-9);

      Trainer for_large{runtime, options("large" + std::string{name_of(each)}, 2)};
      result = fit<Large>(for_large, {.batch = 6, .strategy = each});
      EXPECT_EQ(result.model.size(), 9U);
      Trainer for_none{runtime, options("none" + std::string{name_of(each)}, 2)};
      EXPECT_TRUE(fit<Large>(for_none, {.batch = 6, .strategy = each, .return_model = false}).model.empty());
    }
  }
  load_arrays(*Large::make(), result.model);  // also when the Runtime has ended
}

TEST_F(FitTest, ADryRunDoesOneStepOfEachKind) {
  Runtime runtime;
  Trainer trainer{runtime, {.scaling = {.workers = 2, .cpus_per_worker = 0}, .progress = false}};
  const FitOptions how{.batch = 6, .epochs = 3, .dry_run = true};
  const TrainResult result = fit<Points>(trainer, how, std::uint64_t{0});
  ASSERT_EQ(result.reports.size(), 1U);
  EXPECT_EQ(result.steps, 1U);
  EXPECT_TRUE(result.last(kValidated));
  EXPECT_GT(*result.last("peak_memory_mib"), 10);
  EXPECT_LT(*result.last("peak_memory_mib"), 10'000);
  Trainer with_folder{runtime, options("dry", 2)};
  EXPECT_SAYS(message_of<InvalidArgument>([&] { fit<Points>(with_folder, how, std::uint64_t{0}); }), "has a folder");
}

TEST_F(FitTest, WhatACallbackThrowsEndsTheTraining) {
  Runtime runtime;
  Trainer trainer{runtime, options("throws", 2)};
  const FitOptions how{.batch = 6, .epochs = 3, .validate_every = 0};
  EXPECT_SAYS(message_of<UserError>([&] { fit<Clicks>(trainer, how, std::uint64_t{0}); }), "sees the validation");
}

TEST_F(FitTest, TheRateFollowsAPlateauAndOneRankStopsAll) {
  Runtime runtime;
  Trainer trainer{runtime, options("plateau", 2)};
  const FitOptions how{.batch = 6, .epochs = 3, .validate_every_steps = 1};
  const TrainResult result = fit<OnAPlateau>(trainer, how, std::uint64_t{0});
  EXPECT_EQ(result.steps, 9U);
  // The best is the second validation. The third and fourth are no better, so the fifth step is slower, and so on.
  const std::vector<double> rates{1, 1, 1, 1, 0.1, 0.1, 0.05, 0.05, 0.05};
  ASSERT_EQ(result.reports.size(), rates.size());
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_DOUBLE_EQ(*result.reports[i].metrics.find("lr"), rates[i]) << i;
  EXPECT_EQ(checkpoints_in(folder_.path() / "plateau" / "checkpoints").at(0).moment.step, 9U);
}

TEST_F(FitTest, ValidatesAfterSteps) {
  Runtime runtime;
  Trainer trainer{runtime, options("steps", 2)};
  const FitOptions how{.batch = 6, .epochs = 2, .validate_every = 0, .validate_every_steps = 5};
  const TrainResult result = fit<Points>(trainer, how, std::uint64_t{0});
  for (const TrainReport& each : result.reports) {
    EXPECT_EQ(each.metrics.find(kValidated) != nullptr, each.step % 5 == 0) << each.step;
  }
}

TEST_F(FitTest, WhatMakesNoSenseIsSaid) {
  Runtime runtime;
  const auto refusal = [&]<class E>(const std::string& how) {
    Trainer trainer{runtime, options("odd" + how, 1)};
    return message_of<E>([&] { fit<Odd>(trainer, {.batch = 12}, how); });
  };
  EXPECT_SAYS(refusal.operator()<InvalidArgument>("reserved"), "fit() reports itself");
  EXPECT_SAYS(refusal.operator()<InvalidArgument>("vector"), "with 2 elements");
  EXPECT_SAYS(refusal.operator()<InvalidArgument>("both"), "weight_decay does not go together");
  EXPECT_SAYS(refusal.operator()<InvalidArgument>("plateau"), "between 0 and 1");
}

}  // namespace
}  // namespace pharos::ml::fitting
