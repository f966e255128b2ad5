#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/rule.hpp>

/// What an optimizer does with each parameter of a module:
///
///   const auto settings = [](const ml::WholeParameter& parameter) -> ml::ParameterSettings {
///     if (parameter.name.starts_with("encoder.")) return {.lr_factor = 0.1};
///     return {.weight_decay = parameter.shape.size() >= 2 ? 0.01 : 0};
///   };
///   ml::Optimizer optimizer{ml::groups_of(*model, settings), ml::AdamW{.lr = 1e-3}};
namespace pharos::ml {

/// A parameter of a module, also where the ranks have parts of it. A value.
struct WholeParameter {
  std::string name;  ///< as the module has it: "layers.0.weight"
  std::vector<std::int64_t> shape{};
};

/// A value.
struct ParameterSettings {
  double weight_decay = 0;
  double lr_factor = 1;  ///< The learning rate is multiplied by it.
  /// Another rule than that of the optimizer. When the optimizer's learning rate changes, that of this rule changes by
  /// the same factor.
  std::optional<Rule> rule{};

  bool operator==(const ParameterSettings&) const = default;
};

/// Called for each parameter that is trained of which the rank has a part, once or several times; returns the same for
/// the same parameter, each time and on all ranks.
using SettingsOf = std::function<ParameterSettings(const WholeParameter& parameter)>;

/// Parameters of two or more dimensions decay. All others, such as biases and the weights of norms, do not.
PHAROS_API SettingsOf decaying_matrices(double weight_decay);

}  // namespace pharos::ml
