// A library of the program `carried`, which nodes do not have.

#include <dlfcn.h>

#include <string>

[[gnu::visibility("default")]] std::string path_of_carried_library();
[[gnu::visibility("default")]] std::string path_of_carried_library() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<void*>(&path_of_carried_library), &here);
  return here.dli_fname == nullptr ? "nowhere" : here.dli_fname;
}
