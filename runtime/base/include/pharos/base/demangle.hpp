#pragma once

#include <string>

#include <pharos/base/export.hpp>

namespace pharos {

/// Turns a mangled name of a type or function into the form that people write. Returns `name` unchanged if it is not a
/// mangled name.
PHAROS_API std::string demangled(const char* name);

}  // namespace pharos
