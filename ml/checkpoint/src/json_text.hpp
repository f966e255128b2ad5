#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// JSON for code in which memory may run out. The library's own lists and objects allocate memory in their destructors,
// and end the process if there is none. The types here are values. Any thread may call the functions, which throw
// nothing but std::bad_alloc.

namespace pharos::ml {

/// A parsed JSON value.
struct JsonValue {
  using List = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, List, Object> value{};

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  /// Returns the member of that name; null if this is not an object or has no such member.
  const JsonValue* find(std::string_view name) const;
};
/// Returns nullopt if the text is not valid JSON or is nested deeper than `depth_max`.
std::optional<JsonValue> parse_json(std::string_view text, std::size_t depth_max);

/// Return the value as JSON. Bytes that are not UTF-8 are replaced; NaN and infinite numbers become null.
std::string json_text(std::string_view text);
std::string json_text(std::uint64_t number);
std::string json_text(std::int64_t number);
std::string json_text(double number);
template <class Values, class TextOf>
std::string json_list(const Values& values, const TextOf& text_of) {
  std::string text;
  for (const auto& each : values) text += (text.empty() ? "" : ",") + text_of(each);
  return '[' + text + ']';
}
/// A list of strings or numbers.
template <class Values>
std::string json_list(const Values& values) {
  return json_list(values, [](const auto& each) { return json_text(each); });
}

/// Builds the text of an object, member by member. Does not notice that a name is added twice.
class JsonObjectText {
 public:
  template <class T>
  JsonObjectText& add(std::string_view name, const T& value) {
    return add_text(name, json_text(value));
  }
  /// Adds a member whose value is JSON text already, such as a list or another object.
  JsonObjectText& add_text(std::string_view name, const std::string& text);
  std::string text() const { return '{' + members_ + '}'; }

 private:
  std::string members_;
};

}  // namespace pharos::ml
