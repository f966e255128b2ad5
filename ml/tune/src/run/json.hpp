#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <pharos/base/result.hpp>
#include <pharos/ml/value.hpp>

namespace pharos::ml {

using Json = nlohmann::ordered_json;

// Any thread may call these functions. Json::dump() throws if a text is not UTF-8.

/// Parses text from outside of the program. `what` names the expected contents in the error. Fails with
/// kInvalidArgument if the text is no JSON or is nested more than 16 deep.
Result<Json> parse_json(std::string_view text, std::string_view what);

/// In JSON a real has a decimal point, and a whole number has none. A real that is not finite becomes the text "nan",
/// "inf" or "-inf", and value_of_json() returns it as that text.
Json json_of(const Value& value);
/// Fails with kInvalidArgument if this is no number, text or truth value; `what` names it in the error.
Result<Value> value_of_json(const Json& json, std::string_view what);

}  // namespace pharos::ml
