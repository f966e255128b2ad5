#include "libraries.hpp"

#include <dlfcn.h>

#include <pharos/actors/exceptions.hpp>

namespace pharos::ml {

std::filesystem::path folder_of(const void* function) {
  Dl_info found{};
  ::dladdr(function, &found);
  return std::filesystem::path{found.dli_fname}.parent_path();
}

namespace {

std::filesystem::path path_beside(const char* name) {
  return folder_of(reinterpret_cast<const void*>(&load_beside)) / name;
}

}  // namespace

bool is_beside(const char* name) {
  return std::filesystem::exists(path_beside(name));
}

void load_beside(const char* name, const std::string& what, const std::string& needs) {
  const std::filesystem::path library = path_beside(name);
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* const why = ::dlerror();
  throw_error(Error{ErrorCode::kFailedPrecondition,
                    what + " need " + library.filename().string() + ", which cannot be loaded: " + why,
                    "It lies beside libpharos_ml.so, and needs " + needs + '.'});
}

}  // namespace pharos::ml
