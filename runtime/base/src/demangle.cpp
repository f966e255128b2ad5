#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include <pharos/base/demangle.hpp>

namespace pharos {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free};
  return text == nullptr ? name : text.get();
}

}  // namespace pharos
