#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>
#include <pharos/ml/sweep_results.hpp>
#include <pharos/ml/trial.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/shared_span.hpp>

/// Boosted trees by XGBoost, version 1.7 or later. XGBoost is loaded when a function first needs it, and is not needed
/// to build Pharos.
///
///   const xgboost::Trained trained = xgboost::train({{"objective", "binary:logistic"}, {"eval_metric", "auc"}},
///                                                   data, held_out, {.rounds = 500, .early_stopping_rounds = 20});
///   const std::vector<float> probabilities = xgboost::Model{trained.model}.predict(features);
///
/// As the objective of a sweep, whose trials report each round and share the data in the object store:
///
///   ml::Metrics objective(ml::Trial& trial, const xgboost::Data& data, const xgboost::Data& held_out) {
///     ml::Params params = trial.params();
///     params.set("objective", std::string{"binary:logistic"});
///     params.set("eval_metric", std::string{"auc"});
///     return xgboost::train(trial, params, data, held_out, {.rounds = 200}).metrics;
///   }
///   tuner.run<&objective>(runtime.put(data), runtime.put(held_out));
///
/// A process loads one XGBoost: the file that PHAROS_XGBOOST names; or else libxgboost.so.0 or libxgboost.so if the
/// system's loader finds it; or else one that pip has installed in the active Python environment, for this user, or for
/// all users. Functions throw NotFound, with the places searched, if there is none, and Unsupported if the one found is
/// older than 1.7. When XGBoost reports an error they throw InvalidArgument with XGBoost's message.
namespace pharos::ml::xgboost {

/// The version and the file of an XGBoost.
struct Installed {
  int major = 0;
  int minor = 0;
  int patch = 0;
  std::string path{};
};
/// Returns the XGBoost that this process uses, and loads it first if necessary. Any thread.
PHAROS_API Installed installed();

/// Rows of features, with a label and perhaps a weight for each row. Copies share the numbers, and Data that arrives as
/// an argument of a call is mapped from the object store if it is large. Any thread may read it. A plain value: train()
/// checks that the sizes fit together.
struct Data {
  std::size_t columns = 0;
  /// The features, row by row. NaN marks a missing one.
  SharedSpan<float> features{};
  /// One label for each row.
  SharedSpan<float> labels{};
  /// One weight for each row; empty: all rows have the same weight.
  SharedSpan<float> weights{};
  /// Indices of the columns that hold the numbers of categories (0, 1, 2 and so on) instead of amounts.
  std::vector<std::uint32_t> categories{};

  std::size_t rows() const { return columns == 0 ? 0 : features.size() / columns; }
  /// Returns the rows from `first` to `last`, without `last` itself, as Data that shares the numbers. Throws
  /// InvalidArgument if there are fewer rows.
  PHAROS_API Data slice(std::size_t first, std::size_t last) const;

  auto pharos_fields() { return std::tie(columns, features, labels, weights, categories); }
};

/// A metric that XGBoost does not have.
struct OwnMetric {
  std::string name{};
  /// Computes the metric from the predictions of the model and the labels, both row by row. The predictions are as
  /// predict() returns them, for example probabilities for binary:logistic. Called after each round, and
  /// once when a trial continues from a Checkpoint, on the thread that trains; the spans are valid during the call.
  /// What this function throws ends the training, and leaves train().
  std::function<double(std::span<const float> predictions, std::span<const float> labels)> of{};
};

struct TrainOptions {
  /// Number of rounds in total, including the rounds that a trial did before it was paused.
  std::size_t rounds = 100;
  /// Training ends after so many rounds without a better metric, and the result is the model of the best round; it
  /// needs held-out rows, and train() throws InvalidArgument without them. 0: training does not end early.
  std::size_t early_stopping_rounds = 0;
  /// Name of the metric that decides which round is the best. Empty: `own_metric`, or else the last one of
  /// `eval_metric`.
  std::string metric{};
  /// Says whether a larger or a smaller value of the metric is better. Empty: a larger value for those metrics of
  /// XGBoost for which that is better, such as auc and ndcg; a smaller value for all others and for `own_metric`.
  std::optional<Goal> goal{};
  /// A metric of the program. If it is given, the only other metrics are those that `eval_metric` names: XGBoost's
  /// default metric is off.
  OwnMetric own_metric{};
  /// Called once at the beginning and before each round; returns the number of threads to use from then on, at least 1.
  /// If it is empty, the number is the parameter `nthread` (0: all cores); without that parameter it is Trial::cores()
  /// in a trial, and 1 elsewhere.
  std::function<int()> threads{};
};

struct Trained {
  Bytes model{};                     ///< the model as UBJSON, which Model and any XGBoost can load
  Metrics metrics{};                 ///< the metrics of `model`
  double best = 0;                   ///< the best value of the metric
  std::uint64_t best_rounds = 0;     ///< number of rounds of the model with that value
  std::uint64_t rounds = 0;          ///< number of rounds that were done, including those before a pause
  Verdict verdict = Verdict::kGoOn;  ///< the trial's last verdict; unless it is kGoOn, the objective must return soon
};

/// The checkpoint of a trial: the model with all its rounds, including those after the best one.
struct Checkpoint {
  Bytes model{};
  double best = 0;
  std::uint64_t best_rounds = 0;
};

/// Trains a model on the calling thread, and returns when it is trained. Metrics are measured on the held-out rows, or
/// on the data if there are none. Parameters have XGBoost's names. train() throws InvalidArgument if XGBoost does not
/// know a parameter or does not use it together with the others, and if the sizes of the data do not fit together.
/// `eval_metric` may name several metrics, with commas between them. Two defaults differ from XGBoost's: `tree_method`
/// is hist; and `seed_per_iteration` is true, so that the rounds after a pause do not draw the same samples as the
/// first rounds. Any thread; several threads may train at the same time. XGBoost's other warnings go to the log.
/// Nothing is kept of a training that throws, except binned data.
///
/// XGBoost finds quantiles of the data and bins the data by them (a QuantileDMatrix, a quarter of the data's size). A
/// thread does this once for all calls with the same data in the same place and the same `max_bin`. It keeps the 16
/// matrices that were used last until it ends, or until drop_matrices(); the data and the held-out rows are one matrix
/// each. Data without an owner is binned in each call.
PHAROS_API Trained train(const Params& params, const Data& data, const Data& held_out = {},
                         const TrainOptions& options = {});
/// Trains a model as a trial. It reports each round, stops when the verdict says so, saves a Checkpoint when one is
/// wanted, and continues from the trial's Checkpoint. Throws also what the trial's functions throw. If the Checkpoint
/// has all rounds already, or if early stopping is due, no round is done and none is reported; the model of the
/// Checkpoint is measured for the result.
PHAROS_API Trained train(Trial& trial, const Params& params, const Data& data, const Data& held_out = {},
                         const TrainOptions& options = {});

/// Returns how often this thread has binned data.
PHAROS_API std::uint64_t matrices_built();
/// Frees the memory of this thread's binned data.
PHAROS_API void drop_matrices();

/// A trained model, whether it was trained here or by another program. The program owns it; it keeps no reference to
/// the bytes from which it was loaded. Several threads may use one at the same time. A Model that was moved from may
/// only be assigned to or destroyed.
class PHAROS_API Model {
 public:
  /// Loads a model that XGBoost has saved as UBJSON or JSON. Throws InvalidArgument if the bytes are no model.
  /// predict() uses so many threads; 0: all cores.
  explicit Model(const Bytes& model, int threads = 1);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::size_t columns() const;
  std::uint64_t rounds() const;
  /// Returns one number for each row, or one for each row and class. Throws InvalidArgument unless the features are
  /// whole rows of the model's columns, or with XGBoost's message. No features give no numbers.
  std::vector<float> predict(std::span<const float> features) const;
  /// Returns the whole model as JSON, for people and for other programs.
  std::string to_json() const;

 private:
  class Loaded;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace pharos::ml::xgboost
