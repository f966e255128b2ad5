#include <pharos/pharos.hpp>

void increment(int& n) {
  ++n;
}

void run(pharos::Runtime& runtime) {
  int n = 0;
  runtime.submit<&increment>(n).get();
}
