#include "optimizer/groups.hpp"

#include <torch/nn/module.h>

#include <algorithm>

#include "module/parameters.hpp"

namespace pharos::ml {

SettingsOf decaying_matrices(double weight_decay) {
  return [weight_decay](const WholeParameter& parameter) {
    return ParameterSettings{.weight_decay = parameter.shape.size() >= 2 ? weight_decay : 0};
  };
}

std::vector<ParameterGroup> grouped(const std::vector<TrainedParameter>& parameters, const SettingsOf& settings) {
  std::vector<ParameterSettings> of_groups;
  std::vector<ParameterGroup> groups;
  for (const TrainedParameter& each : parameters) {
    const ParameterSettings its = settings(each.whole);
    const auto place = static_cast<std::size_t>(std::ranges::find(of_groups, its) - of_groups.begin());
    if (place == groups.size()) {
      of_groups.push_back(its);
      groups.push_back({.weight_decay = its.weight_decay, .lr_factor = its.lr_factor, .rule = its.rule});
    }
    groups[place].parameters.push_back(each.values);
  }
  return groups;
}

std::vector<ParameterGroup> groups_of(const torch::nn::Module& module, const SettingsOf& settings) {
  std::vector<TrainedParameter> trained;
  for (const NamedTensor& each : parameters_of(module)) {
    if (each.tensor.requires_grad()) trained.push_back({{each.name, each.tensor.sizes().vec()}, each.tensor});
  }
  return grouped(trained, settings);
}

std::vector<ParameterGroup> groups_of(const torch::nn::Module& module, double weight_decay) {
  return groups_of(module, decaying_matrices(weight_decay));
}

}  // namespace pharos::ml
