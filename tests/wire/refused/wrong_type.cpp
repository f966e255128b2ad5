#include <string>

#include <pharos/pharos.hpp>

struct Point {
  int x;
};

int length(const std::string& text) {
  return static_cast<int>(text.size());
}

int run(pharos::Runtime& runtime) {
  return runtime.submit<&length>(Point{1}).get();
}
