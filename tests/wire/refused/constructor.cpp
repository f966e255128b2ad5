#include <string>

#include <pharos/pharos.hpp>

struct Counter {
  explicit Counter(int start) : count{start} {}
  int count;
};

void run(pharos::Runtime& runtime) {
  static_cast<void>(runtime.spawn<Counter>("text"));
}
