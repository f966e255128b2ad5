#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <pharos/base/result.hpp>
#include <pharos/ml/space.hpp>

namespace pharos::ml {

using Json = nlohmann::ordered_json;

/// Parses text from outside of the program. `what` names the expected contents in the error. Fails with
/// kInvalidArgument if the text is no JSON or is nested more than 16 deep.
Result<Json> parse_json(std::string_view text, std::string_view what);

/// In JSON a real has a decimal point, and a whole number has none.
Json json_of(const Value& value);
Result<Value> value_of_json(const Json& json, std::string_view what);

}  // namespace pharos::ml
