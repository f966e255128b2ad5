#pragma once

#include "fit/strategy.hpp"

namespace pharos::ml {

/// Each rank trains a copy of the model, and Ddp reduces the gradients. A single rank trains the module as it is. The
/// model takes the ranks in FitModel::join() only, which throws what the constructor of Ddp and, on GPUs,
/// communicator_on() throw.
class Copies final : public TrainingStrategy {
 public:
  FitStrategy id() const override { return FitStrategy::kCopies; }
  std::string_view name() const override { return "copies"; }
  std::string_view summary() const override { return "each has a copy of it"; }
  double bytes_on_rank(const ModelBytes& model, double ranks) const override;
  bool ranks_are_alike() const override { return true; }
  std::unique_ptr<FitModel> make_model(Learner& learner, Communicator& ranks, const FitOptions& options) const override;
};

}  // namespace pharos::ml
