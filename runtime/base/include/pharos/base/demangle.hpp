#pragma once

#include <string>

#include <pharos/base/export.hpp>

namespace pharos {

/// Turns a mangled name of a type or function into the form that people write. Returns `name`, which must not be null,
/// unchanged if it is not a mangled name. Any thread, but not in a signal handler.
PHAROS_API std::string demangled(const char* name);

}  // namespace pharos
