#include <algorithm>
#include <optional>

#include <pharos/scheduler/labels.hpp>

#include "names.hpp"

namespace pharos::scheduler {
namespace {

Error makes_no_sense(std::string_view text, std::string why) {
  return {ErrorCode::kInvalidArgument, "the label \"" + std::string{text.substr(0, 128)} + "\" is invalid: " + why,
          "Write labels like zone=a,disk=ssd, and rules about labels like a, !a, in(a, b) or !in(a, b)."};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = text.find_last_not_of(' ') + 1;
  return text.substr(begin, std::max(begin, end) - begin);
}

/// Cuts the next part off a list that is separated by commas.
std::string_view next_part(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(','));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return trimmed(part);
}

std::optional<std::string> fault_of(const LabelRule& rule) {
  if (rule.values.size() > kLabelsMax) return "there are more than 64 values";
  const bool are_names = is_name(rule.name) && std::all_of(rule.values.begin(), rule.values.end(), is_name);
  if (!are_names || rule.values.empty()) return kNameRule;
  return std::nullopt;
}

}  // namespace

Result<Labels> parse_labels(std::string_view text) {
  Labels labels;
  while (!text.empty()) {
    const std::string_view part = next_part(text);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return makes_no_sense(part, "it has no value");
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (!is_name(name) || !is_name(value)) return makes_no_sense(part, kNameRule);
    if (!labels.emplace(name, value).second) return makes_no_sense(part, "its name occurs twice");
    if (labels.size() > kLabelsMax) return makes_no_sense(part, "there are more than 64 labels");
  }
  return labels;
}

Result<void> check_labels(const Labels& labels) {
  if (labels.size() > kLabelsMax) return makes_no_sense(labels.begin()->first, "there are more than 64 labels");
  for (const auto& [name, value] : labels) {
    if (!is_name(name) || !is_name(value)) return makes_no_sense(name + "=" + value, kNameRule);
  }
  return {};
}

std::string as_label(std::string_view text) {
  std::string label;
  for (const char c : trimmed(text)) {
    const bool fits = is_name({&c, 1});
    if (fits || !label.ends_with('-')) label += fits ? c : '-';
  }
  return label.substr(0, kNameBytesMax);
}

Result<LabelRule> LabelRule::parse(std::string_view name, std::string_view rule) {
  LabelRule parsed{std::string{name.substr(0, kNameBytesMax + 1)}, {}};
  std::string_view values = trimmed(rule);
  if (values.starts_with('!')) {
    parsed.is_not = true;
    values.remove_prefix(1);
  }
  if (values.starts_with("in(") && values.ends_with(')')) values = values.substr(3, values.size() - 4);
  do {
    parsed.values.emplace_back(next_part(values).substr(0, kNameBytesMax + 1));
  } while (!values.empty() && parsed.values.size() <= kLabelsMax);
  if (const auto fault = fault_of(parsed)) return makes_no_sense(std::string{name} + "=" + std::string{rule}, *fault);
  return parsed;
}

Result<void> LabelRule::check() const {
  if (const auto fault = fault_of(*this)) return makes_no_sense(to_string(), *fault);
  return {};
}

bool LabelRule::holds_for(const Labels& labels) const {
  const auto found = labels.find(name);
  const bool is_one = found != labels.end() && std::find(values.begin(), values.end(), found->second) != values.end();
  return is_one != is_not;
}

std::string LabelRule::to_string() const {
  if (values.size() == 1) return name + (is_not ? "!=" : "=") + values.front();
  std::string text = name + (is_not ? " not in (" : " in (");
  for (const std::string& value : values) text += (&value == &values.front() ? "" : ", ") + value;
  return text + ')';
}

}  // namespace pharos::scheduler
