#include <pharos/pharos.hpp>

class Secret {
  int* hidden_ = nullptr;
};

int count(Secret) {
  return 1;
}

int run(pharos::Runtime& runtime) {
  return runtime.submit<&count>(Secret{}).get();
}
