#include "fit/part_optimizers.hpp"

#include <torch/nn/module.h>

#include <string>
#include <unordered_map>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "fit/fit_model.hpp"
#include "module/parameters.hpp"

namespace pharos::ml {
namespace {

/// The place of the first optimizer in the list that trains the parameter; the length of the list if there is none.
std::size_t part_of(const std::vector<PartOptimizer>& parts, std::string_view parameter) {
  std::size_t part = 0;
  while (part < parts.size() && !parameter.starts_with(parts[part].parameters)) ++part;
  return part;
}

}  // namespace

const Rule& rule_for(const Optimization& how, std::string_view parameter) {
  const std::size_t part = part_of(how.parts, parameter);
  return part < how.parts.size() ? how.parts[part].rule : how.rule;
}

PartOptimizers::PartOptimizers(const FitModel& model, const torch::nn::Module& module, const Optimization& how)
    : schedule_{how.schedule} {
  const std::vector<PartOptimizer> parts = how.parts.empty() ? std::vector{PartOptimizer{.rule = how.rule}} : how.parts;
  for (const PartOptimizer& part : parts) {
    parts_.push_back({.optimizer = nullptr, .rate = lr_of(part.rule), .schedule = part.schedule, .parameters = {}});
  }
  // Looks at the module, and not at what this rank has of it, so that all ranks throw.
  for (const NamedTensor& each : parameters_of(module)) {
    if (!each.tensor.requires_grad()) continue;
    const std::size_t part = part_of(parts, each.name);
    if (part == parts.size()) {
      throw_error(
          Error{ErrorCode::kInvalidArgument, "no optimizer of Optimization::parts trains \"" + each.name + '"',
                "Add one without PartOptimizer::parameters for the rest, or freeze it: requires_grad_(false)."});
    }
    parts_[part].parameters.push_back(each.tensor);
  }
  std::unordered_map<const void*, std::size_t> part_of_tensor;
  for (const NamedTensor& each : model.own_parameters()) {
    part_of_tensor.emplace(each.tensor.unsafeGetTensorImpl(), part_of(parts, each.name));
  }
  const std::vector<ParameterGroup> all = model.groups(how.settings);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts_[i].parameters.empty() && !how.parts.empty()) {
      throw_error(Error{
          ErrorCode::kInvalidArgument,
          "Optimization::parts has an optimizer for \"" + parts[i].parameters +
              "\", and none of the parameters that are left has a name that begins so",
          "Give the beginning of names that Module::named_parameters() lists, such as \"0.\" or \"embedding.\"."});
    }
    // Groups that become empty stay: their before_step has to be called on all ranks.
    std::vector<ParameterGroup> groups = all;
    for (ParameterGroup& group : groups) {
      std::erase_if(group.parameters,
                    [&](const at::Tensor& each) { return part_of_tensor.at(each.unsafeGetTensorImpl()) != i; });
    }
    parts_[i].optimizer = std::make_unique<Optimizer>(std::move(groups), parts[i].rule);
  }
}

void PartOptimizers::zero_grad() {
  for (const Part& each : parts_) each.optimizer->zero_grad();
}

void PartOptimizers::set_rates(std::uint64_t step, double factor) {
  for (const Part& each : parts_) each.optimizer->set_lr(each.rate * schedule_(step) * each.schedule(step) * factor);
}

void PartOptimizers::report_rates(Metrics& metrics) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    metrics.set(i == 0 ? "lr" : "lr_" + std::to_string(i + 1), parts_[i].optimizer->lr());
  }
}

void PartOptimizers::step(std::optional<std::size_t> only) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!only || *only == i) parts_[i].optimizer->step();
  }
}

void PartOptimizers::add_to(State& state, FitModel& model) {
  for (const Part& each : parts_) model.add_to(state, *each.optimizer);
}

PartOptimizers::Alone::Alone(const PartOptimizers& all, std::optional<std::size_t> only) {
  if (!only) return;
  if (*only >= all.parts_.size()) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "Learner::optimizer_of_step() has returned " + std::to_string(*only) + ", and the learner has " +
                          std::to_string(all.parts_.size()) + " optimizers",
                      "Return the place of an optimizer in Optimization::parts, counted from 0."});
  }
  for (std::size_t i = 0; i < all.parts_.size(); ++i) {
    if (i == *only) continue;
    others_.insert(others_.end(), all.parts_[i].parameters.begin(), all.parts_[i].parameters.end());
  }
  for (const at::Tensor& each : others_) each.set_requires_grad(false);
}

PartOptimizers::Alone::~Alone() {
  for (const at::Tensor& each : others_) each.set_requires_grad(true);
}

}  // namespace pharos::ml
