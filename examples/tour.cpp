#include <cstdio>

#include <pharos/pharos.hpp>
int add(int a, int b) {
  return a + b;
}
class Counter {
 public:
  explicit Counter(int start) : count_{start} {}
  int add(int n) { return count_ += n; }

 private:
  int count_;
};
int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  std::printf("sum %d\n", runtime.submit<&add>(1, 2).get());
  auto counter = runtime.spawn<Counter>(10);
  std::printf("count %d\n", counter.call<&Counter::add>(3).get());
}
