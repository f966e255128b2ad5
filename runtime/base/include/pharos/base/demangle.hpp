#pragma once

#include <string>

#include <pharos/base/export.hpp>

namespace pharos {

/// As people write it, the name that the compiler has for a type or a function; the name itself if it is none of those.
PHAROS_API std::string demangled(const char* name);

}  // namespace pharos
