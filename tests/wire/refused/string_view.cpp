#include <string_view>

#include <pharos/pharos.hpp>

int length(std::string_view text) {
  return static_cast<int>(text.size());
}

int run(pharos::Runtime& runtime) {
  return runtime.submit<&length>("text").get();
}
