#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <pharos/base/result.hpp>
#include <pharos/ml/space.hpp>

namespace pharos::ml {

using Json = nlohmann::ordered_json;

/// Of text from outside; `what` is what it should be, for the error.
Result<Json> parse_json(std::string_view text, std::string_view what);

/// A real is told from a whole number by its point.
Json json_of(const Value& value);
Result<Value> value_of_json(const Json& json, std::string_view what);

}  // namespace pharos::ml
