#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <pharos/ml/learner.hpp>
#include <pharos/ml/metrics.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/state.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

class FitModel;

/// The rule by which a parameter of that name is trained, if its settings name no other one.
const Rule& rule_for(const Optimization& how, std::string_view parameter);

/// The optimizers of a learner. Each trains some of the parameters, or what this rank has of them; a rank without any
/// parameter of an optimizer steps that one, too, because the ranks of a divided model wait for each other in a step.
/// Owned by the loop of fit(), which outlives no model. The rank's thread. A step throws what Optimizer::step() throws.
class PartOptimizers {
 public:
  /// `how` has settings. Throws InvalidArgument, on all ranks, if a parameter has no optimizer, or an optimizer no
  /// parameter.
  PartOptimizers(const FitModel& model, const torch::nn::Module& module, const Optimization& how);

  void zero_grad();
  /// Sets the learning rates of a step. `factor`: by which all of them are multiplied.
  void set_rates(std::uint64_t step, double factor);
  /// Adds the learning rates: "lr", "lr_2" and so on.
  void report_rates(Metrics& metrics) const;
  /// Steps the optimizer with this number, or all of them.
  void step(std::optional<std::size_t> only);
  void add_to(State& state, FitModel& model);

  /// While this lives, the parameters of all other optimizers need no gradients. nullopt: it does nothing.
  class Alone {
   public:
    /// Throws InvalidArgument if there is no optimizer with this number.
    Alone(const PartOptimizers& all, std::optional<std::size_t> only);
    Alone(Alone&&) = delete;
    ~Alone();

   private:
    std::vector<at::Tensor> others_;
  };

 private:
  struct Part {
    std::unique_ptr<Optimizer> optimizer;
    double rate;  // with which it has begun
    Schedule schedule;
    std::vector<at::Tensor> parameters;  // of the module, also where the ranks have divided them
  };

  const Schedule schedule_;  // of all parts
  std::vector<Part> parts_;
};

}  // namespace pharos::ml
