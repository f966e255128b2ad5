#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// The labels that users give to a node: {"zone", "a"}, {"gpu_type", "A10"}.
using Labels = std::map<std::string, std::string>;

constexpr std::size_t kLabelsMax = 64;

/// Parses text such as "zone=a,disk=ssd". Names and values have 1 to 64 letters, digits, or one of _-.:/. Returns
/// kInvalidArgument for other text, for a name that occurs twice, and for more than kLabelsMax labels. Empty text gives
/// no labels. Any thread, as all functions of this header.
Result<Labels> parse_labels(std::string_view text);
/// Checks labels that another process has sent: returns kInvalidArgument where parse_labels() would.
Result<void> check_labels(const Labels& labels);

/// Makes a valid label value of any text, such as a product's name: "NVIDIA A10" becomes "NVIDIA-A10". Text of more
/// than 64 characters is cut off. Text without any character but spaces gives the empty text, which is not valid.
std::string as_label(std::string_view text);

/// A condition that a node's labels must fulfil. A plain value; rules from elsewhere are checked by check().
struct LabelRule {
  std::string name;
  std::vector<std::string> values;  ///< the node's label has one of these values
  bool is_not = false;              ///< the node's label has none of these values, or the node lacks the label

  /// Parses a rule: "a", "!a", "in(a, b)" or "!in(a, b)". Returns kInvalidArgument for other text, and
  /// for more than kLabelsMax values.
  static Result<LabelRule> parse(std::string_view name, std::string_view rule);
  /// Checks a rule that another process has sent: returns kInvalidArgument where parse() would.
  Result<void> check() const;
  bool holds_for(const Labels& labels) const;
  /// "zone in (a, b)".
  std::string to_string() const;
  friend auto operator<=>(const LabelRule&, const LabelRule&) = default;
};

}  // namespace pharos::scheduler
