#include <map>
#include <string>

#include <pharos/pharos.hpp>

int count(std::map<std::string, std::string> names) {
  return static_cast<int>(names.size());
}

int run(pharos::Runtime& runtime) {
  return runtime.submit<&count>(std::map<std::string, std::string>{}).get();
}
