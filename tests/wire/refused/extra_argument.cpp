#include <pharos/pharos.hpp>

struct Counter {
  int add(int n) { return count += n; }
  int count = 0;
};

int run(pharos::Runtime& runtime) {
  return runtime.spawn<Counter>().call<&Counter::add>(1, 2).get();
}
