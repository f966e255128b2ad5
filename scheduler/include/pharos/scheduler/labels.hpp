#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// What people say of a node: {"zone", "a"}, {"gpu_type", "A10"}.
using Labels = std::map<std::string, std::string>;

constexpr std::size_t kLabelsMax = 64;

/// "zone=a,disk=ssd". Names and values have 1 to 64 letters, digits, or one of _-.:/.
Result<Labels> parse_labels(std::string_view text);
/// Of another process, which may send anything.
Result<void> check_labels(const Labels& labels);

/// A name that others have given, such as a product's, as the value of a label: "NVIDIA A10" becomes "NVIDIA-A10".
std::string as_label(std::string_view text);

/// One thing that has to be true of a node's labels.
struct LabelRule {
  std::string name;
  std::vector<std::string> values;  ///< the node's is one of these
  bool is_not = false;              ///< it is none of them, or the node has none

  /// "a", "!a", "in(a, b)" or "!in(a, b)".
  static Result<LabelRule> parse(std::string_view name, std::string_view rule);
  /// Of another process, which may send anything.
  Result<void> check() const;
  bool holds_for(const Labels& labels) const;
  /// "zone in (a, b)".
  std::string to_string() const;
  friend auto operator<=>(const LabelRule&, const LabelRule&) = default;
};

}  // namespace pharos::scheduler
