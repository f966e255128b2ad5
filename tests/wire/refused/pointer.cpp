#include <pharos/pharos.hpp>

int value_at(int* place) {
  return *place;
}

int run(pharos::Runtime& runtime, int* place) {
  return runtime.submit<&value_at>(place).get();
}
