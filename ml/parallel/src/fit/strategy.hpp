#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <pharos/ml/fit_strategy.hpp>

namespace pharos::ml {

class Communicator;
class FitModel;
class Learner;
struct FitOptions;

/// Bytes of a model and of what belongs to it. Each strategy keeps a part of them on a rank. A value.
struct ModelBytes {
  explicit ModelBytes(const FitSize& size);

  double parameters;    ///< the trained parameters; their gradients take as much
  double frozen;        ///< the parameters that are not trained
  double optimizer;     ///< the state of the optimizer, and a float copy of parameters that are smaller
  double gathered;      ///< divided parameters that a rank has whole at the same time
  double reduced;       ///< divided gradients that a rank has whole at the same time
  bool reads_in_place;  ///< divided parameters lie in memory that all ranks read
};

/// A way in which ranks train one model together. Each strategy is a class, and one line in strategies(). The process
/// has one constant object of each, made by the first strategies(); any thread may use it. Only make_model() can fail.
class TrainingStrategy {
 public:
  TrainingStrategy() = default;
  TrainingStrategy(TrainingStrategy&&) = delete;
  virtual ~TrainingStrategy() = default;

  virtual FitStrategy id() const = 0;
  /// The name that programs print and read.
  virtual std::string_view name() const = 0;
  /// Completes the sentence "Several ranks train one model, and …".
  virtual std::string_view summary() const = 0;
  /// Bytes that a rank needs. Activations and batches are not counted.
  virtual double bytes_on_rank(const ModelBytes& model, double ranks) const = 0;
  /// Returns true if all ranks have the same state, so that another process can take a dead rank's place.
  virtual bool ranks_are_alike() const = 0;
  /// Makes the model that fit() trains from the learner's module. All ranks call it together, and may wait for each
  /// other. The learner outlives the model.
  virtual std::unique_ptr<FitModel> make_model(Learner& learner, Communicator& ranks,
                                               const FitOptions& options) const = 0;
};

}  // namespace pharos::ml
