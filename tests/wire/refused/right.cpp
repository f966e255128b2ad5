#include <string>

#include <pharos/pharos.hpp>

int length(const std::string& text, bool twice) {
  return static_cast<int>(text.size()) * (twice ? 2 : 1);
}

struct Counter {
  explicit Counter(int start) : count{start} {}
  int add(int n) { return count += n; }
  int count;
};

int run(pharos::Runtime& runtime) {
  return runtime.submit<&length>("text", true).get() + runtime.spawn<Counter>(1).call<&Counter::add>(2).get();
}
