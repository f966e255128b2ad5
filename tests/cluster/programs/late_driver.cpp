// `late_driver before|after LIBRARY`: loads the library before or after the Runtime starts, and submits the library's
// function.

#include <dlfcn.h>

#include <iostream>
#include <string>

#include <pharos/pharos.hpp>

namespace {

int b_known_function(int value) {
  return value * 10;
}
int c_known_function(int value) {
  return value * 100;
}

void load(const char* library, void*& loaded) {
  loaded = ::dlopen(library, RTLD_NOW);
  if (loaded == nullptr) std::cout << ::dlerror() << '\n';
}

}  // namespace

int main(int, char** argv) {
  const std::string when = argv[1];
  void* loaded = nullptr;
  try {
    if (when == "before") load(argv[2], loaded);
    pharos::Runtime runtime;
    if (when == "after") load(argv[2], loaded);
    std::cout << runtime.submit<&b_known_function>(3).get() << ' ' << runtime.submit<&c_known_function>(3).get()
              << std::endl;
    using Submit = int (*)(pharos::Runtime&);
    std::cout << reinterpret_cast<Submit>(::dlsym(loaded, "submit_late"))(runtime) << '\n';
  } catch (const pharos::FunctionNotFound& e) {
    std::cout << "FunctionNotFound: " << e.what() << '\n';
  } catch (const std::exception& e) {
    std::cout << "unexpected: " << e.what() << '\n';
  }
}
