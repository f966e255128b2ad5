#pragma once

#include "fit/strategy.hpp"

namespace pharos::ml {

/// The strategies that divide a model by Sharded. They differ in what they divide. make_model() throws what the
/// constructor of Sharded throws; the model keeps the ranks with which it was made.
class Zero1 final : public TrainingStrategy {
 public:
  FitStrategy id() const override { return FitStrategy::kZero1; }
  std::string_view name() const override { return "zero1"; }
  std::string_view summary() const override {
    return "each has parameters and gradients; the optimizer's state is divided among them";
  }
  double bytes_on_rank(const ModelBytes& model, double ranks) const override;
  bool ranks_are_alike() const override { return false; }
  std::unique_ptr<FitModel> make_model(Learner& learner, Communicator& ranks, const FitOptions& options) const override;
};

class Zero2 final : public TrainingStrategy {
 public:
  FitStrategy id() const override { return FitStrategy::kZero2; }
  std::string_view name() const override { return "zero2"; }
  std::string_view summary() const override {
    return "each has the parameters; gradients and the optimizer's state are divided among them";
  }
  double bytes_on_rank(const ModelBytes& model, double ranks) const override;
  bool ranks_are_alike() const override { return false; }
  std::unique_ptr<FitModel> make_model(Learner& learner, Communicator& ranks, const FitOptions& options) const override;
};

class FullyShard final : public TrainingStrategy {
 public:
  FitStrategy id() const override { return FitStrategy::kFullyShard; }
  std::string_view name() const override { return "fsdp"; }
  std::string_view summary() const override {
    return "parameters, gradients and the optimizer's state are divided among them";
  }
  double bytes_on_rank(const ModelBytes& model, double ranks) const override;
  bool ranks_are_alike() const override { return false; }
  std::unique_ptr<FitModel> make_model(Learner& learner, Communicator& ranks, const FitOptions& options) const override;
};

}  // namespace pharos::ml
