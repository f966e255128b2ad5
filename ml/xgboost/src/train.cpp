#include <algorithm>
#include <charconv>
#include <utility>
#include <variant>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/xgboost.hpp>

#include "booster.hpp"
#include "evaluation.hpp"
#include "matrices.hpp"

namespace pharos::ml::xgboost {
namespace {

constexpr const char* kMeasured = "measured";
constexpr std::int64_t kBins = 256;

Error refused(std::string message, std::string remedy) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

std::string text_of(const Value& value) {
  if (const auto* const truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return ml::to_string(value);
}

/// Returns a parameter of XGBoost that must be a whole number; `otherwise` if it is not given.
Result<int> whole(const Params& params, const char* name, std::int64_t otherwise) {
  const Value* const given = params.find(name);
  if (given == nullptr) return static_cast<int>(otherwise);
  const std::string text = text_of(*given);
  int number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size() || number < 0) {
    return refused("the parameter " + std::string{name} + " is " + text, "It is a whole number, and not negative.");
  }
  return number;
}

/// Fails if XGBoost warns of parameters that it does not use. All other warnings go to the log.
Result<void> look_at_warnings(const Library& library) {
  for (const std::string& said : take_warnings(library)) {
    if (said.find("are not used") == std::string::npos) {
      log(LogLevel::kWarn, "xgboost warns", {kv("says", said)});
      continue;
    }
    const auto begin = said.find('{');
    const auto end = said.find('}');
    std::string names = begin < end ? said.substr(begin + 1, end - begin - 1) : said;
    return refused("XGBoost does not use these parameters:" + names.substr(0, names.find_last_not_of(' ') + 1),
                   "Correct their names or leave them out: XGBoost does not know them, or does not use them together "
                   "with the other parameters.");
  }
  return {};
}

/// Trains one model.
class Training {
 public:
  static Result<Trained> run(Trial* trial, const Params& params, const Data& data, const Data& held_out,
                             const TrainOptions& options);

 private:
  struct Sets {
    std::shared_ptr<Matrix> data;
    std::shared_ptr<Matrix> measured;  // the held-out rows; `data` if there are none
  };

  Training(const Library& library, const TrainOptions& options, Sets sets, Booster booster, ThreadLimit& limit)
      : library_{library}, options_{options}, sets_{std::move(sets)}, booster_{std::move(booster)}, limit_{limit} {}

  static Result<Sets> sets_of(const Library& library, const Params& params, const Data& data, const Data& held_out,
                              int threads);
  Result<void> set(const Params& params);
  Result<void> use_threads(int threads);
  Result<void> load(const Checkpoint& checkpoint);
  Result<void> go_on_from(const Checkpoint& checkpoint);
  Result<void> round();
  Result<Metrics> measure(Booster& model, std::uint64_t rounds) const;
  Result<Metrics::Entry> deciding_metric() const;
  Goal goal(const std::string& metric) const;
  bool is_over() const;
  Result<Trained> result(Verdict verdict);

  const Library& library_;
  const TrainOptions& options_;
  Sets sets_;
  Booster booster_;
  ThreadLimit& limit_;
  int threads_ = 0;
  std::uint64_t rounds_ = 0;
  Metrics metrics_;          // metrics of the last round
  Metrics metrics_of_best_;  // empty if the best round was before the checkpoint
  std::optional<Best> best_;
};

Result<Training::Sets> Training::sets_of(const Library& library, const Params& params, const Data& data,
                                         const Data& held_out, int threads) {
  Matrices& matrices = Matrices::of_this_thread();
  PHAROS_TRY(const int bins, whole(params, "max_bin", kBins));
  Sets sets;
  PHAROS_TRY(sets.data, matrices.get(library, data, bins, threads, nullptr));
  sets.measured = sets.data;
  if (!held_out.features.empty()) {
    PHAROS_TRY(sets.measured, matrices.get(library, held_out, bins, threads, sets.data));
  }
  return sets;
}

Result<void> Training::set(const Params& params) {
  const bool measures_its_own = options_.own_metric.of == nullptr;
  PHAROS_TRY_VOID(booster_.set("validate_parameters", "true"));
  if (!measures_its_own) PHAROS_TRY_VOID(booster_.set("disable_default_eval_metric", "true"));
  const Params ours{{"tree_method", std::string{"hist"}}, {"seed_per_iteration", true}};
  for (const auto& [name, value] : ours.entries()) {
    if (params.find(name) == nullptr) PHAROS_TRY_VOID(booster_.set(name, text_of(value)));
  }
  for (const auto& [name, value] : params.entries()) {
    if (name == "nthread") continue;
    const std::string text = text_of(value);
    if (name != "eval_metric") {
      PHAROS_TRY_VOID(booster_.set(name, text));
      continue;
    }
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      PHAROS_TRY_VOID(booster_.set(name, text.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  return {};
}

Result<void> Training::use_threads(int threads) {
  if (threads == threads_) return {};
  PHAROS_TRY_VOID(booster_.set("nthread", std::to_string(threads)));
  limit_.set(threads);
  threads_ = threads;
  return {};
}

Result<void> Training::load(const Checkpoint& checkpoint) {
  PHAROS_TRY_VOID(booster_.load(checkpoint.model));
  PHAROS_TRY(rounds_, booster_.rounds());
  return {};
}

// The parameters have to be set before. Without the metrics, a training that has no round left would have no result.
Result<void> Training::go_on_from(const Checkpoint& checkpoint) {
  if (rounds_ == 0) return {};
  PHAROS_TRY(metrics_, measure(booster_, rounds_));
  PHAROS_TRY_VOID(look_at_warnings(library_));
  PHAROS_TRY(const auto deciding, deciding_metric());
  const Goal wanted = goal(deciding.first);
  best_ = checkpoint.best_rounds == 0 ? Best{wanted} : Best{wanted, checkpoint.best, checkpoint.best_rounds};
  if (best_->rounds() == rounds_) metrics_of_best_ = metrics_;
  return {};
}

Result<void> Training::round() {
  if (options_.threads) PHAROS_TRY_VOID(use_threads(std::max(1, options_.threads())));
  PHAROS_TRY_VOID(booster_.train(rounds_, sets_.data->handle()));
  PHAROS_TRY_VOID(look_at_warnings(library_));
  ++rounds_;
  PHAROS_TRY(metrics_, measure(booster_, rounds_));
  PHAROS_TRY(const auto deciding, deciding_metric());
  if (!best_) best_.emplace(goal(deciding.first));
  if (best_->add(rounds_, deciding.second)) metrics_of_best_ = metrics_;
  return {};
}

Result<Metrics> Training::measure(Booster& model, std::uint64_t rounds) const {
  const auto& [name, of] = options_.own_metric;
  DMatrixHandle const measured = sets_.measured->handle();
  PHAROS_TRY(const std::string line, model.measure(rounds - 1, measured, kMeasured));
  PHAROS_TRY(Metrics metrics, metrics_in(line, kMeasured));
  if (of != nullptr) {
    PHAROS_TRY(const auto predicted, model.predict(measured));
    metrics.set(name, of(predicted, sets_.measured->data().labels.span()));
  }
  return metrics;
}

Goal Training::goal(const std::string& metric) const {
  if (options_.goal) return *options_.goal;
  const bool is_own = options_.own_metric.of != nullptr && metric == options_.own_metric.name;
  return is_own ? Goal::kMinimise : goal_of(metric);
}

/// Returns the metric of the last round that decides which round is the best.
Result<Metrics::Entry> Training::deciding_metric() const {
  if (metrics_.empty()) {
    return refused("there is no metric to measure the model by", "Name one of XGBoost's in eval_metric.");
  }
  const std::string name = options_.metric.empty() ? metrics_.entries().back().first : options_.metric;
  const double* const value = metrics_.find(name);
  if (value == nullptr) {
    return refused("the metric \"" + name + "\" is not measured; there are: " + metrics_.to_string(),
                   "Name it in eval_metric, or name another one.");
  }
  return Metrics::Entry{name, *value};
}

bool Training::is_over() const {
  if (rounds_ >= options_.rounds) return true;
  return options_.early_stopping_rounds != 0 && best_ && rounds_ - best_->rounds() >= options_.early_stopping_rounds;
}

Result<Trained> Training::result(Verdict verdict) {
  Trained trained{.metrics = metrics_, .rounds = rounds_, .verdict = verdict};
  if (best_) {
    trained.best = best_->value();
    trained.best_rounds = best_->rounds();
  }
  const bool is_best = trained.best_rounds == 0 || trained.best_rounds == rounds_;
  if (options_.early_stopping_rounds == 0 || is_best) {
    PHAROS_TRY(trained.model, booster_.save("ubj"));
    return trained;
  }
  PHAROS_TRY(Booster best, booster_.first(trained.best_rounds));
  PHAROS_TRY(trained.model, best.save("ubj"));
  trained.metrics = metrics_of_best_;
  if (trained.metrics.empty()) {
    PHAROS_TRY(trained.metrics, measure(best, trained.best_rounds));
  }
  return trained;
}

Result<Trained> Training::run(Trial* trial, const Params& params, const Data& data, const Data& held_out,
                              const TrainOptions& given) {
  TrainOptions options = given;
  if (trial != nullptr && !options.threads && params.find("nthread") == nullptr) {
    options.threads = [trial] { return static_cast<int>(trial->cores()); };
  }
  if (options.early_stopping_rounds != 0 && held_out.features.empty()) {
    return refused("early stopping was asked for without held-out rows",
                   "Pass held-out rows: on the rows that it is trained with, a model always becomes better.");
  }
  PHAROS_TRY(const Library* const xgboost, library());
  take_warnings(*xgboost);
  PHAROS_TRY(int threads, whole(params, "nthread", 1));
  if (options.threads) threads = std::max(1, options.threads());
  ThreadLimit limit{*xgboost};
  limit.set(threads);
  PHAROS_TRY(Sets sets, sets_of(*xgboost, params, data, held_out, threads));
  std::vector<DMatrixHandle> handles{sets.data->handle()};
  if (sets.measured != sets.data) handles.push_back(sets.measured->handle());
  PHAROS_TRY(auto booster, Booster::make(*xgboost, handles));

  Training training{*xgboost, options, std::move(sets), std::move(booster), limit};
  std::optional<Checkpoint> saved;
  if (trial != nullptr) saved = trial->checkpoint<Checkpoint>();
  if (saved) PHAROS_TRY_VOID(training.load(*saved));
  PHAROS_TRY_VOID(training.set(params));
  PHAROS_TRY_VOID(training.use_threads(threads));
  if (saved) PHAROS_TRY_VOID(training.go_on_from(*saved));
  auto verdict = Verdict::kGoOn;
  while (!training.is_over() && verdict == Verdict::kGoOn) {
    PHAROS_TRY_VOID(training.round());
    if (trial == nullptr) continue;
    verdict = trial->report(training.metrics_, [&] {
      auto model = training.booster_.save("ubj");
      if (!model) throw_error(std::move(model).error());
      return Checkpoint{*std::move(model), training.best_->value(), training.best_->rounds()};
    });
  }
  return training.result(verdict);
}

Trained train_or_throw(Trial* trial, const Params& params, const Data& data, const Data& held_out,
                       const TrainOptions& options) {
  auto trained = Training::run(trial, params, data, held_out, options);
  if (!trained) throw_error(std::move(trained).error().with("training with XGBoost"));
  return *std::move(trained);
}

}  // namespace

Trained train(const Params& params, const Data& data, const Data& held_out, const TrainOptions& options) {
  return train_or_throw(nullptr, params, data, held_out, options);
}
Trained train(Trial& trial, const Params& params, const Data& data, const Data& held_out, const TrainOptions& options) {
  return train_or_throw(&trial, params, data, held_out, options);
}

}  // namespace pharos::ml::xgboost
