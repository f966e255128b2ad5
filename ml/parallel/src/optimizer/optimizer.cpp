#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <unordered_set>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/check.hpp>
#include <pharos/ml/optimizer.hpp>

#include "optimizer/updates.hpp"
#include "optimizer/updates_on_device.hpp"

namespace pharos::ml {
namespace {

constexpr std::int64_t kGrain = 1 << 15;       // smallest number of elements for which a thread is worth its cost
constexpr std::int64_t kAlignedElements = 16;  // each parameter's state begins at a new cache line

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

at::ScalarType kept_type(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// The tensor's elements in the order of their memory, in one dimension.
at::Tensor in_memory_order(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1});
}

/// Removes repeated parameters, such as tied ones: a parameter is trained once, in the group where it comes first.
std::vector<ParameterGroup> once(std::vector<ParameterGroup> groups) {
  std::unordered_set<const void*> seen;
  for (ParameterGroup& group : groups) {
    std::erase_if(group.parameters,
                  [&](const at::Tensor& each) { return !seen.insert(each.unsafeGetTensorImpl()).second; });
  }
  return groups;
}

/// Takes numbers that other code has written to the parameter into the float copy.
void follow(at::Tensor& whole, const at::Tensor& parameter) {
  const at::Tensor as_it_was = whole.to(parameter.scalar_type());
  if (parameter.is_cpu() && at::equal(as_it_was, parameter)) return;  // on a GPU the host would have to wait for it
  whole.copy_(at::where(as_it_was == parameter, whole, parameter.to(whole.scalar_type())));
}

void check(const at::Tensor& parameter, at::Device device) {
  if (!parameter.is_non_overlapping_and_dense() || !parameter.is_floating_point()) {
    throw_error(Error{ErrorCode::kInvalidArgument, "a parameter of type " + parameter.toString() + " cannot be trained",
                      "Give tensors of floating point numbers without gaps between them."});
  }
  if (parameter.device() == device) return;
  throw_error(Error{ErrorCode::kInvalidArgument,
                    "one parameter is on " + device.str() + " and another one on " + parameter.device().str(),
                    "Move the module to one device before the optimizer is made."});
}

/// The gradient, with its numbers in the order of the parameter's memory.
at::Tensor gradient_of(const at::Tensor& parameter) {
  at::Tensor gradient = parameter.grad();
  if (gradient.layout() != at::kStrided || gradient.strides() != parameter.strides()) {
    gradient = at::empty_like(parameter).copy_(gradient.layout() == at::kStrided ? gradient : gradient.to_dense());
  }
  return in_memory_order(gradient);
}

/// Half-precision parameters, whose steps are computed in floats. Entry i of each list belongs to parameter i.
struct Halves {
  std::vector<Optimizer::State*> states;
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> whole_values;
  std::vector<at::Tensor> whole_gradients;
};

std::uint64_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

Update update_of(const Rule& rule, double lr, double weight_decay, std::uint64_t step) {
  const auto t = static_cast<double>(step);
  const double keep = 1 - lr * weight_decay;
  return std::visit(Overloaded{[&](const AdamW& by) -> Update {
                                 return AdamWUpdate{by.beta1,
                                                    by.beta2,
                                                    keep,
                                                    lr / (1 - std::pow(by.beta1, t)),
                                                    1 / std::sqrt(1 - std::pow(by.beta2, t)),
                                                    by.eps};
                               },
                               [&](const Sgd& by) -> Update {
                                 if (by.momentum == 0) return SgdUpdate{lr, weight_decay};
                                 return MomentumUpdate{lr, weight_decay, by.momentum, by.nesterov};
                               },
                               [&](const Lion& by) -> Update {
                                 return LionUpdate{lr, keep, by.beta1, by.beta2};
                               },
                               [](const std::shared_ptr<const UpdateRule>&) -> Update {
                                 PHAROS_CHECK(false);  // Optimizer::step_by_own_rule() deals with it
                               }},
                    rule);
}

}  // namespace

// ---- Rules

UpdateRule::~UpdateRule() = default;

double lr_of(const Rule& rule) {
  return std::visit(Overloaded{[](const std::shared_ptr<const UpdateRule>& by) { return by->lr(); },
                               [](const auto& by) { return by.lr; }},
                    rule);
}

std::vector<std::string> names_of(const Rule& rule) {
  using Names = std::vector<std::string>;
  return std::visit(Overloaded{[](const AdamW&) {
                                 return Names{"mean", "square"};
                               },
                               [](const Sgd& by) { return by.momentum == 0 ? Names{} : Names{"velocity"}; },
                               [](const Lion&) { return Names{"mean"}; },
                               [](const std::shared_ptr<const UpdateRule>& by) { return by->names(); }},
                    rule);
}

// ---- Optimizer

Optimizer::Optimizer(std::vector<ParameterGroup> groups, const Rule& rule)
    : groups_{once(std::move(groups))}, rule_{rule}, lr_{ml::lr_of(rule)}, begin_lr_{lr_} {
  for (const ParameterGroup& group : groups_) {
    if (group.rule && begin_lr_ == 0) {
      throw_error(
          Error{ErrorCode::kInvalidArgument,
                "a group of parameters has a rule of its own, and the optimizer's rule has a learning rate of 0, "
                "so that changes of the rate have no factor",
                "Give the optimizer's rule the learning rate of the other parameters."});
    }
    const std::vector<std::string> names = names_of(rule_of(group));
    for (const at::Tensor& parameter : group.parameters) {
      if (states_.empty()) device_ = parameter.device();
      check(parameter, device_);
      states_.push_back({.parameter = parameter, .names = names});
    }
  }
  keep_side_by_side();
}

Optimizer::~Optimizer() = default;

double Optimizer::lr_of(const ParameterGroup& group) const {
  const double lr = group.rule ? ml::lr_of(*group.rule) * (lr_ / begin_lr_) : lr_;
  return lr * group.lr_factor;
}

void Optimizer::keep_side_by_side() {
  const at::NoGradGuard no_grad;
  const auto room = [](const State& state) {
    return (state.parameter.numel() + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
  };
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto keeps = [&](const State& each, std::size_t value) {
      return kept_type(each.parameter) == type && value < each.names.size();
    };
    for (std::size_t value = 0;; ++value) {
      std::int64_t elements = 0;
      for (const State& each : states_) elements += keeps(each, value) ? room(each) : 0;
      if (elements == 0) break;
      const at::Tensor all = at::zeros({elements}, at::TensorOptions{}.dtype(type).device(device_));
      std::int64_t begin = 0;
      for (State& each : states_) {
        if (!keeps(each, value)) continue;
        each.values.push_back(all.narrow(0, begin, each.parameter.numel()));
        begin += room(each);
      }
    }
  }
  for (State& each : states_) {
    if (each.parameter.scalar_type() == kept_type(each.parameter)) continue;
    each.whole = in_memory_order(each.parameter).detach().to(at::kFloat);
  }
}

void Optimizer::step() {
  const at::NoGradGuard no_grad;
  for (const ParameterGroup& group : groups_) {
    if (group.before_step) group.before_step();
  }
  std::span<State> rest{states_};
  for (const ParameterGroup& group : groups_) {
    const std::span<State> states = rest.first(group.parameters.size());
    rest = rest.subspan(states.size());
    if (const auto* const own = std::get_if<std::shared_ptr<const UpdateRule>>(&rule_of(group))) {
      for (State& each : states) {
        if (each.parameter.grad().defined()) step_by_own_rule(each, **own, group);
      }
      continue;
    }
    if (!device_.is_cpu()) {
      step_on_device(states, group);
      continue;
    }
    for (State& each : states) {
      if (!each.parameter.grad().defined()) continue;
      if (kept_type(each.parameter) == at::kDouble) {
        step_one<double>(each, group);
      } else {
        step_one<float>(each, group);
      }
    }
  }
}

void Optimizer::step_on_device(std::span<State> states, const ParameterGroup& group) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    DeviceRun run;
    Halves halves;
    std::vector<at::Tensor> stepped;
    for (State& each : states) {
      if (!each.parameter.grad().defined() || kept_type(each.parameter) != type) continue;
      at::Tensor values = in_memory_order(each.parameter);
      at::Tensor gradient = gradient_of(each.parameter);
      if (each.whole.defined()) {
        if (version_of(each.parameter) != each.version || values.data_ptr() != each.memory) follow(each.whole, values);
        halves.states.push_back(&each);
        halves.values.push_back(std::exchange(values, each.whole));
        halves.gradients.push_back(std::exchange(gradient, at::empty_like(each.whole)));
        halves.whole_values.push_back(values);
        halves.whole_gradients.push_back(gradient);
      }
      run.values.push_back(values);
      run.gradients.push_back(gradient);
      for (std::size_t i = 0; i < each.values.size(); ++i) run.kept[i].push_back(each.values[i]);
      run.steps.push_back(++each.steps);
      stepped.push_back(each.parameter);
    }
    if (run.values.empty()) continue;
    if (!halves.states.empty()) at::_foreach_copy_(halves.whole_gradients, halves.gradients);
    update_on_device(rule_of(group), lr_of(group), group.weight_decay, run);
    if (!halves.states.empty()) at::_foreach_copy_(halves.values, halves.whole_values);
    for (const at::Tensor& each : stepped) each.unsafeGetTensorImpl()->bump_version();
    for (State* const each : halves.states) {
      each->version = version_of(each->parameter);
      each->memory = each->parameter.data_ptr();
    }
  }
}

template <class Real>
void Optimizer::step_one(State& state, const ParameterGroup& group) {
  const at::Tensor& parameter = state.parameter;
  at::Tensor gradient = gradient_of(parameter);
  at::Tensor values = in_memory_order(parameter);
  if (state.whole.defined()) {
    gradient = gradient.to(at::kFloat);
    follow(state.whole, values);
    values = state.whole;
  }
  ++state.steps;
  const Update by = update_of(rule_of(group), lr_of(group), group.weight_decay, state.steps);
  at::parallel_for(0, parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    Run<Real> run{values.data_ptr<Real>() + begin,
                  gradient.const_data_ptr<Real>() + begin,
                  {},
                  static_cast<std::size_t>(end - begin)};
    for (std::size_t i = 0; i < state.values.size(); ++i) run.kept[i] = state.values[i].data_ptr<Real>() + begin;
    update(by, run);
  });
  if (state.whole.defined()) in_memory_order(parameter).copy_(state.whole);
  parameter.unsafeGetTensorImpl()->bump_version();  // so that the backward of a graph from before the step throws
}

void Optimizer::step_by_own_rule(State& state, const UpdateRule& rule, const ParameterGroup& group) {
  const at::Tensor& parameter = state.parameter;
  const auto in_its_shape = [&](const at::Tensor& kept) {
    return kept.as_strided(parameter.sizes(), parameter.strides(), kept.storage_offset());
  };
  at::Tensor gradient = parameter.grad().layout() == at::kStrided ? parameter.grad() : parameter.grad().to_dense();
  at::Tensor values = parameter.detach();
  if (state.whole.defined()) {
    gradient = gradient.to(at::kFloat);
    follow(state.whole, in_memory_order(values));
    values = in_its_shape(state.whole);
  }
  std::vector<at::Tensor> kept;
  for (const at::Tensor& each : state.values) kept.push_back(in_its_shape(each));
  rule.update(values, gradient, kept, {++state.steps, lr_of(group), group.weight_decay});
  if (state.whole.defined()) in_memory_order(parameter).copy_(state.whole);
  parameter.unsafeGetTensorImpl()->bump_version();
}

void Optimizer::zero_grad(bool set_to_none) {
  for (State& each : states_) {
    at::Tensor& gradient = each.parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (set_to_none) {
      gradient.reset();
    } else {
      gradient.detach_().zero_();
    }
  }
}

}  // namespace pharos::ml
