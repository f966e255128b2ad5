#include <c10/util/Type.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <utility>
#include <vector>

#include <pharos/ml/module_summary.hpp>

#include "module/text_of_bytes.hpp"

namespace pharos::ml {
namespace {

struct Line {
  std::string name;
  std::string type;
  std::string shapes{};
  std::int64_t numbers = 0;
};

/// "Linear" of "torch::nn::LinearImpl".
std::string type_of(const torch::nn::Module& module) {
  std::string name = c10::demangle(typeid(module).name());
  name.erase(0, name.rfind(':') + 1);
  if (name.ends_with("Impl")) name.resize(name.size() - std::string_view{"Impl"}.size());
  return name;
}

std::string shape_of(const at::Tensor& tensor) {
  std::string shape;
  for (const std::int64_t each : tensor.sizes()) shape += (shape.empty() ? "" : " x ") + std::to_string(each);
  return shape.empty() ? "1" : shape;
}

/// 1234567 as "1 234 567".
std::string spaced(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ' ');
  }
  return digits;
}

}  // namespace

std::string summary_of(const torch::nn::Module& module) {
  std::vector<Line> lines{{"name", "type", "parameters"}};
  std::unordered_set<const void*> seen;
  std::int64_t numbers = 0;
  std::int64_t trained = 0;
  double bytes = 0;
  for (const auto& part : module.named_modules(/*name_prefix=*/"", /*include_self=*/true)) {
    Line line{.name = part.key().empty() ? "(itself)" : part.key(), .type = type_of(*part.value())};
    for (const auto& parameter : part.value()->named_parameters(/*recurse=*/false)) {
      const at::Tensor& tensor = parameter.value();
      if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
      line.shapes += (line.shapes.empty() ? "" : ", ") + parameter.key() + ' ' + shape_of(tensor);
      line.numbers += tensor.numel();
      trained += tensor.requires_grad() ? tensor.numel() : 0;
      bytes += static_cast<double>(tensor.nbytes());
    }
    numbers += line.numbers;
    if (!line.shapes.empty()) lines.push_back(std::move(line));
  }
  std::size_t name_width = 0;
  std::size_t type_width = 0;
  for (const Line& each : lines) {
    name_width = std::max(name_width, each.name.size());
    type_width = std::max(type_width, each.type.size());
  }
  std::string text;
  for (Line& each : lines) {
    each.name.resize(name_width, ' ');
    each.type.resize(type_width, ' ');
    const std::string count = &each == lines.data() ? "elements" : spaced(each.numbers);
    text += each.name + "  " + each.type + std::string(std::max<std::size_t>(14, count.size()) - count.size(), ' ') +
            count + "  " + each.shapes + '\n';
  }
  return text + spaced(numbers) + " elements in all, " + spaced(trained) + " of them trained; " + text_of_bytes(bytes) +
         " of parameters\n";
}

}  // namespace pharos::ml
