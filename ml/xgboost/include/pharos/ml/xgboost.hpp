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

/// Boosted trees by XGBoost, 1.7 or later, which is loaded when the first function here is called, and need not be
/// there when Pharos is built:
///
///   const xgboost::Trained trained = xgboost::train({{"objective", "binary:logistic"}, {"eval_metric", "auc"}},
///                                                   data, held_out, {.rounds = 500, .early_stopping_rounds = 20});
///   const std::vector<float> probabilities = xgboost::Model{trained.model}.predict(features);
///
/// As the objective of a sweep, whose trials report each round, and share the data where it lies:
///
///   ml::Metrics objective(ml::Trial& trial, const xgboost::Data& data, const xgboost::Data& held_out) {
///     ml::Params params = trial.params();
///     params.set("objective", std::string{"binary:logistic"});
///     params.set("eval_metric", std::string{"auc"});
///     return xgboost::train(trial, params, data, held_out, {.rounds = 200}).metrics;
///   }
///   tuner.run<&objective>(runtime.put(data), runtime.put(held_out));
///
/// A process loads one XGBoost: the file that PHAROS_XGBOOST names, or what the system finds as libxgboost.so.0 or
/// libxgboost.so, or one that pip has installed for the Python environment that is active, for this user, or for all.
/// Throws NotFound, with where it looked, where there is none. What XGBoost refuses throws InvalidArgument with its
/// words.
namespace pharos::ml::xgboost {

struct Installed {
  int major = 0;
  int minor = 0;
  int patch = 0;
  std::string path{};
};
/// Which XGBoost this process uses.
PHAROS_API Installed installed();

/// Rows of numbers, and what is known of each row. A value; copies share what they hold, and where it arrives as an
/// argument it lies in the object store. Any thread.
struct Data {
  std::size_t columns = 0;
  /// Row by row. NaN: missing.
  SharedSpan<float> features{};
  /// Of each row.
  SharedSpan<float> labels{};
  /// Of each row; none: all count alike.
  SharedSpan<float> weights{};
  /// Columns that are categories, 0, 1, 2 and so on, and not amounts.
  std::vector<std::uint32_t> categories{};

  std::size_t rows() const { return columns == 0 ? 0 : features.size() / columns; }
  /// Rows from `first` to before `last`, where they lie. Throws InvalidArgument where there are not so many.
  PHAROS_API Data slice(std::size_t first, std::size_t last) const;

  auto pharos_fields() { return std::tie(columns, features, labels, weights, categories); }
};

/// A metric that XGBoost does not have.
struct OwnMetric {
  std::string name{};
  /// Of what the model predicts, row by row, as it predicts it (probabilities for binary:logistic), and the labels.
  std::function<double(std::span<const float> predictions, std::span<const float> labels)> of{};
};

struct TrainOptions {
  /// In all, also of those that a trial did before it was paused.
  std::size_t rounds = 100;
  /// Rounds without a better metric after which it ends; the model is then that of the best round. 0: never.
  std::size_t early_stopping_rounds = 0;
  /// Which metric that is. Empty: one's own, or else the last one of `eval_metric`.
  std::string metric{};
  /// Empty: up for those of XGBoost's that are better the larger they are, such as auc and ndcg; else down.
  std::optional<Goal> goal{};
  /// Where it is given, XGBoost's own metrics are those that `eval_metric` names, and none by default.
  OwnMetric own_metric{};
  /// Asked before each round: threads that it may use from then on. None: `nthread` of the parameters (0: all cores);
  /// where they have none, a trial's cores(), which rise when others have ended, and else one.
  std::function<int()> threads{};
};

struct Trained {
  Bytes model{};                     ///< for Model, and for XGBoost wherever it is, as UBJSON
  Metrics metrics{};                 ///< of the model
  double best = 0;                   ///< what the metric was at its best
  std::uint64_t best_rounds = 0;     ///< that the model had then
  std::uint64_t rounds = 0;          ///< that were done, also before a pause
  Verdict verdict = Verdict::kGoOn;  ///< of its trial, which is to return soon if that is not kGoOn
};

/// What a trial saves: of all its rounds, also those after the best.
struct Checkpoint {
  Bytes model{};
  double best = 0;
  std::uint64_t best_rounds = 0;
};

/// Metrics are of the held-out rows; where there are none, of the data. Parameters are XGBoost's by their names; those
/// that it does not know, or does not use with the others, throw InvalidArgument. Unless they say otherwise,
/// `tree_method` is hist, and `seed_per_iteration` true: then rounds after a pause do not sample what the first ones
/// did. Several of `eval_metric`: with commas between them.
///
/// Quantiles of the data are found, and the data is binned by them, once for all calls of a thread that have the same
/// data and `max_bin` (a QuantileDMatrix, of a quarter of the data's size): the last eight of them are kept until the
/// thread ends.
PHAROS_API Trained train(const Params& params, const Data& data, const Data& held_out = {},
                         const TrainOptions& options = {});
/// The same, as a trial: reports each round, stops when it is told to, saves a Checkpoint when that is wanted, and goes
/// on from one.
PHAROS_API Trained train(Trial& trial, const Params& params, const Data& data, const Data& held_out = {},
                         const TrainOptions& options = {});

/// How often this thread has binned data.
PHAROS_API std::uint64_t matrices_built();
/// Gives the memory of this thread's binned data back.
PHAROS_API void drop_matrices();

/// A model that has been trained, here or elsewhere. Any thread, several at once.
class PHAROS_API Model {
 public:
  /// As XGBoost saves them: UBJSON or JSON. Throws InvalidArgument where this is none. Predicts with so many threads;
  /// 0: with all cores.
  explicit Model(const Bytes& model, int threads = 1);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::size_t columns() const;
  std::uint64_t rounds() const;
  /// Of each row one number, or one for each class. Throws InvalidArgument where features are not rows of its columns.
  std::vector<float> predict(std::span<const float> features) const;
  /// All of it, for people and for other programs.
  std::string to_json() const;

 private:
  class Loaded;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace pharos::ml::xgboost
