#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// A value of a parameter.
using Value = std::variant<bool, std::int64_t, double, std::string>;
/// Any thread.
PHAROS_API std::string to_string(const Value& value);

}  // namespace pharos::ml
