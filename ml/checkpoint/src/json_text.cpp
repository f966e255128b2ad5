#include "json_text.hpp"

#include <nlohmann/json.hpp>

namespace pharos::ml {
namespace {

using Json = nlohmann::json;

/// For strings and numbers, whose destructors allocate nothing.
std::string text_of(const Json& leaf) {
  return leaf.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Receives the values that the library's parser finds. A function that returns false ends the parsing.
class Listener {
 public:
  explicit Listener(std::size_t depth_max) : depth_max_{depth_max} {}
  JsonValue take() { return std::move(whole_); }

  bool null() { return put({nullptr}); }
  bool boolean(bool value) { return put({value}); }
  bool number_integer(std::int64_t value) { return put({value}); }
  bool number_unsigned(std::uint64_t value) { return put({value}); }
  bool number_float(double value, const std::string&) { return put({value}); }
  bool string(std::string& value) { return put({std::move(value)}); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) { return begin({JsonValue::Object{}}); }
  bool key(std::string& name) {
    name_ = std::move(name);
    return true;
  }
  bool end_object() { return end(); }
  bool start_array(std::size_t) { return begin({JsonValue::List{}}); }
  bool end_array() { return end(); }
  template <class Why>
  bool parse_error(std::size_t, const std::string&, const Why&) {
    return false;
  }

 private:
  /// Puts a value into the innermost open value. An open value does not move, because its parent gets no further
  /// element until the value is closed.
  JsonValue& place(JsonValue value) {
    if (open_.empty()) return whole_ = std::move(value);
    if (auto* const list = std::get_if<JsonValue::List>(&open_.back()->value)) {
      return list->emplace_back(std::move(value));
    }
    auto& object = std::get<JsonValue::Object>(open_.back()->value);
    return object.emplace_back(std::move(name_), std::move(value)).second;
  }
  bool put(JsonValue value) {
    place(std::move(value));
    return true;
  }
  bool begin(JsonValue value) {
    if (open_.size() == depth_max_) return false;
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }

  const std::size_t depth_max_;
  JsonValue whole_;
  std::vector<JsonValue*> open_;  // values that are not complete, the innermost last
  std::string name_;              // the name of the next member
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  const Object* const object = as<Object>();
  if (object == nullptr) return nullptr;
  for (const auto& [key, member] : *object) {
    if (key == name) return &member;
  }
  return nullptr;
}

std::optional<JsonValue> parse_json(std::string_view text, std::size_t depth_max) {
  Listener listener{depth_max};
  if (!Json::sax_parse(text, &listener)) return std::nullopt;
  return listener.take();
}

std::string json_text(std::string_view text) {
  return text_of(text);
}
std::string json_text(std::uint64_t number) {
  return text_of(number);
}
std::string json_text(std::int64_t number) {
  return text_of(number);
}
std::string json_text(double number) {
  return text_of(number);
}

JsonObjectText& JsonObjectText::add_text(std::string_view name, const std::string& text) {
  members_ += (members_.empty() ? "" : ",") + json_text(name) + ':' + text;
  return *this;
}

}  // namespace pharos::ml
