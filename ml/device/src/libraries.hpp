#pragma once

#include <filesystem>
#include <string>

namespace pharos::ml {

/// Returns the folder of the library, or the program, that has this function.
std::filesystem::path folder_of(const void* function);

/// Whether a library of that name lies beside this one.
bool is_beside(const char* name);

/// Loads a library that lies beside this one, for example "libpharos_nccl.so.0.1". Throws FailedPrecondition if it
/// cannot be loaded: `what` needs it, and it needs `needs`.
void load_beside(const char* name, const std::string& what, const std::string& needs);

}  // namespace pharos::ml
