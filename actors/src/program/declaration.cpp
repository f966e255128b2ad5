#include <algorithm>
#include <span>

#include <pharos/actors/declaration.hpp>

#include "program/function_table.hpp"

namespace pharos::detail {
namespace {

std::string list_of_names(std::span<const std::type_info* const> types) {
  std::string names;
  for (const std::type_info* const type : types) {
    if (!names.empty()) names += ", ";
    names += actors::readable_name(type->name());
  }
  return names;
}

}  // namespace

// Two types of one name, from the unnamed namespaces of two files, are explained one after the other.
bool Declaration::is_explained(const std::type_info& type) const {
  return std::any_of(explained_.begin(), explained_.end(), [&](const auto& each) { return *each.type == type; });
}

bool Declaration::explain(const std::type_info& type, std::initializer_list<const std::type_info*> parts) {
  if (is_explained(type)) return false;
  explained_.push_back({&type, '{' + list_of_names({parts.begin(), parts.size()}) + '}'});
  return true;
}

bool Declaration::explain(const std::type_info& type, std::string_view format) {
  if (is_explained(type)) return false;
  explained_.push_back({&type, std::string{format}});
  return true;
}

std::string Declaration::text(std::string_view method) const {
  std::string text =
      actors::readable_name(result_->name()) + ' ' + std::string{method} + '(' + list_of_names(parameters_) + ')';
  for (const Explained& each : explained_) {
    text += &each == &explained_.front() ? ", where " : ", ";
    text += actors::readable_name(each.type->name()) + " is " + each.values;
  }
  return text;
}

}  // namespace pharos::detail
