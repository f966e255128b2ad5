// The first page: a function that runs in another process, an object that lives in another process, and a result that
// is passed on before it is there.

#include <iostream>

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
  pharos::Runtime runtime{argc, argv};  // joins the cluster it was started for, or embeds one of its own

  pharos::Ref<int> sum = runtime.submit<&add>(1, 2);
  pharos::Actor<Counter> counter = runtime.spawn<Counter>({.name = "counter", .max_restarts = 3}, 10);
  pharos::Ref<int> count = counter.call<&Counter::add>(sum);  // a Ref is an argument like any other
  std::cout << count.get() << '\n';                           // 13
}
