#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/ml/torch_rule.hpp>

namespace pharos::ml {
namespace {

using KeptTensors = std::span<const at::Tensor>;

// For each optimizer: the tensors that it keeps for a parameter, and its state before a step, which refers to them. The
// state before the first step (`steps` is 0) is the one with which libtorch begins.

std::vector<std::string> kept_names(const torch::optim::SGDOptions& options) {
  return options.momentum() == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum_buffer"};
}
std::unique_ptr<torch::optim::SGDParamState> state_before(const torch::optim::SGDOptions& options, KeptTensors kept,
                                                          std::uint64_t steps) {
  // In the first step libtorch's buffer becomes the gradient itself, whatever the dampening is.
  if (options.momentum() == 0 || steps == 0) return nullptr;
  auto state = std::make_unique<torch::optim::SGDParamState>();
  state->momentum_buffer(kept[0]);
  return state;
}

template <class State, class Options>
std::unique_ptr<State> adam_state_before(const Options& options, KeptTensors kept, std::uint64_t steps) {
  auto state = std::make_unique<State>();
  state->step(static_cast<std::int64_t>(steps));
  state->exp_avg(kept[0]);
  state->exp_avg_sq(kept[1]);
  if (options.amsgrad()) state->max_exp_avg_sq(kept[2]);
  return state;
}
std::vector<std::string> kept_by_adam(bool amsgrad) {
  std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  if (amsgrad) names.emplace_back("max_exp_avg_sq");
  return names;
}
std::vector<std::string> kept_names(const torch::optim::AdamOptions& options) {
  return kept_by_adam(options.amsgrad());
}
std::unique_ptr<torch::optim::AdamParamState> state_before(const torch::optim::AdamOptions& options, KeptTensors kept,
                                                           std::uint64_t steps) {
  return adam_state_before<torch::optim::AdamParamState>(options, kept, steps);
}
std::vector<std::string> kept_names(const torch::optim::AdamWOptions& options) {
  return kept_by_adam(options.amsgrad());
}
std::unique_ptr<torch::optim::AdamWParamState> state_before(const torch::optim::AdamWOptions& options, KeptTensors kept,
                                                            std::uint64_t steps) {
  return adam_state_before<torch::optim::AdamWParamState>(options, kept, steps);
}

std::vector<std::string> kept_names(const torch::optim::RMSpropOptions& options) {
  std::vector<std::string> names{"square_avg"};
  if (options.momentum() > 0) names.emplace_back("momentum_buffer");
  if (options.centered()) names.emplace_back("grad_avg");
  return names;
}
std::unique_ptr<torch::optim::RMSpropParamState> state_before(const torch::optim::RMSpropOptions& options,
                                                              KeptTensors kept, std::uint64_t steps) {
  auto state = std::make_unique<torch::optim::RMSpropParamState>();
  state->step(static_cast<std::int64_t>(steps));
  state->square_avg(kept[0]);
  if (options.momentum() > 0) state->momentum_buffer(kept[1]);
  if (options.centered()) state->grad_avg(kept.back());
  return state;
}

std::vector<std::string> kept_names(const torch::optim::AdagradOptions&) {
  return {"sum"};
}
std::unique_ptr<torch::optim::AdagradParamState> state_before(const torch::optim::AdagradOptions& options,
                                                              KeptTensors kept, std::uint64_t steps) {
  if (steps == 0) kept[0].fill_(options.initial_accumulator_value());
  auto state = std::make_unique<torch::optim::AdagradParamState>();
  state->step(static_cast<std::int64_t>(steps));
  state->sum(kept[0]);
  return state;
}

/// Takes over what a step has made anew instead of changing it in place.
void keep_new(torch::optim::Optimizer&, void*, KeptTensors) {}
void keep_new(torch::optim::SGD& sgd, void* parameter, KeptTensors kept) {
  if (kept.empty()) return;
  const auto& state = static_cast<const torch::optim::SGDParamState&>(*sgd.state().at(parameter));
  if (!state.momentum_buffer().is_same(kept[0])) kept[0].copy_(state.momentum_buffer());
}

/// Steps each parameter by an optimizer of its own, which lives as long as the step: the state is the caller's.
template <class Optimizer, class Options>
class TorchRule final : public UpdateRule {
 public:
  explicit TorchRule(const Options& options) : options_{options} {
    const Optimizer refuses_nonsense{std::vector<at::Tensor>{}, options};
  }

  double lr() const override { return options_.lr(); }
  std::vector<std::string> names() const override { return kept_names(options_); }
  void update(const at::Tensor& values, const at::Tensor& gradient, KeptTensors kept, const Step& step) const override {
    const at::Tensor parameter = values.detach();
    parameter.mutable_grad() = gradient;
    Options options = options_;
    options.lr(step.lr);
    options.weight_decay(options_.weight_decay() + step.weight_decay);
    Optimizer optimizer{std::vector<at::Tensor>{parameter}, options};
    void* const key = parameter.unsafeGetTensorImpl();
    if (auto state = state_before(options, kept, step.number - 1)) optimizer.state()[key] = std::move(state);
    optimizer.step();
    keep_new(optimizer, key, kept);
  }

 private:
  const Options options_;
};

}  // namespace

std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::AdagradOptions& options) {
  return std::make_shared<TorchRule<torch::optim::Adagrad, torch::optim::AdagradOptions>>(options);
}
std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::AdamOptions& options) {
  return std::make_shared<TorchRule<torch::optim::Adam, torch::optim::AdamOptions>>(options);
}
std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::AdamWOptions& options) {
  return std::make_shared<TorchRule<torch::optim::AdamW, torch::optim::AdamWOptions>>(options);
}
std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::RMSpropOptions& options) {
  return std::make_shared<TorchRule<torch::optim::RMSprop, torch::optim::RMSpropOptions>>(options);
}
std::shared_ptr<const UpdateRule> torch_rule(const torch::optim::SGDOptions& options) {
  return std::make_shared<TorchRule<torch::optim::SGD, torch::optim::SGDOptions>>(options);
}

}  // namespace pharos::ml
