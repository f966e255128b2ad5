#include "run/json.hpp"

#include <cmath>
#include <variant>

namespace pharos::ml {
namespace {

constexpr std::size_t kDepthMax = 16;

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  std::size_t depth_max = 0;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    depth_max = std::max(depth_max, static_cast<std::size_t>(depth));
    return depth_max <= kDepthMax;
  };
  Json json = Json::parse(text, look, false);
  if (json.is_discarded() || depth_max > kDepthMax) {
    return Error{ErrorCode::kInvalidArgument, "this text is not valid JSON for " + std::string{what} + ": " +
                                                  std::string{text.substr(0, 80)} + (text.size() > 80 ? "..." : "")};
  }
  return json;
}

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& each) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(each)>, double>) {
          // JSON has finite numbers only, so the others become text.
          if (!std::isfinite(each)) return std::isnan(each) ? "nan" : each > 0 ? "inf" : "-inf";
        }
        return each;
      },
      value);
}

Result<Value> value_of_json(const Json& json, std::string_view what) {
  if (json.is_boolean()) return Value{json.get<bool>()};
  if (json.is_number_integer()) return Value{json.get<std::int64_t>()};
  if (json.is_number_float()) return Value{json.get<double>()};
  if (json.is_string()) return Value{json.get<std::string>()};
  return Error{ErrorCode::kInvalidArgument, std::string{what} + " is " + json.dump().substr(0, 80) +
                                                ", but it must be a number, a text, true or false"};
}

}  // namespace pharos::ml
