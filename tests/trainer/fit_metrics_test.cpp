// A metric that options ask for and no report will have is noticed before the training has changed anything.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

#include "fitting.hpp"
#include "mishaps.hpp"
#include "says.hpp"

namespace pharos::ml::fitting {

/// Its training cannot begin.
struct Unstarted : Points {
  Unstarted() : Points{0} {}

  Tensor training_step(const Batch&) override { throw std::runtime_error{"the training has begun"}; }
};

/// Logs in its steps, and has no validation.
struct Logging : Points {
  Logging() : Points{0} {}

  DatasetPtr validation_data() override { return nullptr; }
  Tensor training_step(const Batch& batch) override {
    log("share", 0.5);
    return Points::training_step(batch);
  }
};

/// Has a callback that reports nothing.
struct ReadyPoints : Points {
  ReadyPoints() : Points{0} {}

  std::vector<std::shared_ptr<FitCallback>> callbacks() override { return {lower_rate_on({})}; }
};

/// A callback of the learner may report metrics of any name, and draws random numbers before each step.
struct Drawing : Images {
  explicit Drawing(const Mishap& mishap) : Images{mishap} {}

  std::vector<std::shared_ptr<FitCallback>> callbacks() override {
    struct Draws : FitCallback {
      void before_step(FitControl&) override { drawn_ = torch::rand({}).item<double>(); }
      void after_step(FitControl& control, const Metrics&) override { control.log("validation_drawn", drawn_); }

     private:
      double drawn_ = 0;
    };
    return {std::make_shared<Draws>()};
  }
};

namespace {

class MetricsTest : public FitTest {
 protected:
  template <class T>
  std::string refusal(Runtime& runtime, TrainerOptions its, const FitOptions& how = {.batch = 6}) {
    its.folder = folder_.path() / std::to_string(++tries_);
    const std::filesystem::path saved = its.folder / "checkpoints";
    Trainer trainer{runtime, std::move(its)};
    std::string text = message_of<InvalidArgument>([&] { fit<T>(trainer, how); });
    EXPECT_TRUE(checkpoints_in(saved).empty());
    return text;
  }
  static TrainerOptions asking_for(const std::string& metric, std::size_t workers = 2) {
    return {.scaling = {.workers = workers, .cpus_per_worker = 0}, .metric = metric, .progress = false};
  }
  static TrainerOptions stopping_by(const std::string& metric) {
    TrainerOptions its = asking_for("loss");
    its.callbacks = {early_stopping(metric, 3)};
    return its;
  }

  int tries_ = 0;
};

TEST_F(MetricsTest, OfAValidationThatAreMisspeltAreNoticedBeforeTheTraining) {
  Runtime runtime;
  for (const TrainerOptions& its : {asking_for("validation_acuracy"), stopping_by("validation_acuracy")}) {
    const std::string text = refusal<Unstarted>(runtime, its);
    EXPECT_SAYS(text, "look at the metric \"validation_acuracy\", and no validation reports it");
    EXPECT_SAYS(text, "there are \"validation_accuracy\", \"validation_loss\"");
    EXPECT_SAYS(text, "Did you mean \"validation_accuracy\"?");
  }
  for (const FitStrategy each : {FitStrategy::kZero1, FitStrategy::kFullyShard}) {
    EXPECT_SAYS(refusal<Unstarted>(runtime, asking_for("validation_recall"), {.batch = 6, .strategy = each}),
                "and no validation reports it");
  }
  EXPECT_SAYS(refusal<Unstarted>(runtime, asking_for("validation_loss"), {.batch = 6, .validate_every = 0}),
              "nothing is validated");
  EXPECT_SAYS(refusal<Logging>(runtime, asking_for("validation_loss")), "the learner has no validation data");
}

TEST_F(MetricsTest, OfAStepThatAreMisspeltAreNoticedInTheFirstStep) {
  Runtime runtime;
  const std::string text = refusal<Logging>(runtime, stopping_by("shar"));
  EXPECT_SAYS(text, "\"shar\", and no step reports it; there are \"loss\", \"lr\", \"samples_per_second\", \"share\"");
  EXPECT_SAYS(text, "Did you mean \"share\"?");
  EXPECT_SAYS(refusal<Logging>(runtime, asking_for("los")), "Did you mean \"loss\"?");
}

TEST_F(MetricsTest, ThatOtherLibrariesAbbreviateAreNoticed) {
  Runtime runtime;
  EXPECT_SAYS(refusal<ReadyPoints>(runtime, stopping_by("val_loss")), "Did you mean \"validation_loss\"?");
}

TEST_F(MetricsTest, ThatACallbackMayStillReportAreOnlyWarnedOf) {
  Runtime runtime;
  TrainerOptions its = asking_for("validation_drawn");
  its.folder = folder_.path() / "warned";
  const std::filesystem::path log = its.folder / "logs/rank-0.log";
  Trainer trainer{runtime, std::move(its)};
  const TrainResult result = fit<Drawing>(trainer, {.batch = 5, .epochs = 1}, Mishap{});
  EXPECT_TRUE(result.best);
  std::ifstream file{log};
  const std::string said{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_SAYS(said, "only a callback of the learner can report a metric");
  EXPECT_SAYS(said, "validation_drawn");
}

/// Batch normalisation, dropout and random numbers of callbacks show whether the look at the validation leaves anything
/// behind.
TEST_F(MetricsTest, AreLookedForWithoutATrace) {
  Runtime runtime;
  must_end_within(std::chrono::seconds{60});
  for (const FitStrategy each : {FitStrategy::kCopies, FitStrategy::kFullyShard}) {
    SCOPED_TRACE(name_of(each));
    const auto train = [&](const std::string& metric) {
      Trainer trainer{runtime, asking_for(metric)};
      return fit<Drawing>(trainer, {.batch = 5, .epochs = 2, .strategy = each}, Mishap{});
    };
    const TrainResult looked_for = train("validation_loss");
    const TrainResult not_looked_for = train("loss");
    ASSERT_EQ(looked_for.reports.size(), not_looked_for.reports.size());
    for (std::size_t i = 0; i < looked_for.reports.size(); ++i) {
      for (const auto& [name, value] : not_looked_for.reports[i].metrics.entries()) {
        if (name == "samples_per_second") continue;
        EXPECT_EQ(*looked_for.reports[i].metrics.find(name), value) << name << " of step " << i + 1;
      }
    }
  }
}

}  // namespace
}  // namespace pharos::ml::fitting
