// A program whose static initialiser starts a thread. A fork would not copy that thread.

#include <pthread.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include <pharos/pharos.hpp>

namespace {

std::thread start_early_bird() {
  std::thread thread{[] {
    for (;;) ::pause();
  }};
  ::pthread_setname_np(thread.native_handle(), "early-bird");
  thread.detach();
  return {};
}
const std::thread nobody = start_early_bird();

class Counter {
 public:
  int add(int amount) { return value_ += amount; }

 private:
  int value_ = 0;
};

int twice(int value) {
  return 2 * value;
}

}  // namespace

int main() {
  {
    pharos::Runtime runtime;
    const auto counter = runtime.spawn<Counter>();
    counter.call<&Counter::add>(1).get();
    std::cout << counter.call<&Counter::add>(1).get() << ' ' << runtime.submit<&twice>(21).get() << std::endl;
  }
  ::_exit(0);  // the thread never ends
}
