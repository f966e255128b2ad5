#include <pharos/pharos.hpp>

class Secret {
  int* hidden_ = nullptr;
};

Secret secret() {
  return {};
}

void run(pharos::Runtime& runtime) {
  static_cast<void>(runtime.submit<&secret>());
}
