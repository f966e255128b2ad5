#include <map>
#include <string>

#include <pharos/pharos.hpp>

std::map<std::string, std::string> names() {
  return {};
}

void run(pharos::Runtime& runtime) {
  static_cast<void>(runtime.submit<&names>());
}
