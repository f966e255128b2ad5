#include <pharos/pharos.hpp>

int add(int a, int b) {
  return a + b;
}

int run(pharos::Runtime& runtime) {
  return runtime.submit<&add>(1).get();
}
