// A program whose actor or task ends badly: `crashing_program null|call_null|recurse|terminate|thread|abort|destructor|
// divide|task`. It says what it was told about that.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include <pharos/pharos.hpp>

namespace {

int* volatile nowhere = nullptr;
int (*volatile no_function)(int) = nullptr;
volatile int zero = 0;

struct Overheated : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Each a function of its own name, for the report to show. The sanitizer of undefined behaviour would come first.
[[gnu::noinline, gnu::no_sanitize("undefined")]] int write_to_nowhere(int value) {
  *nowhere = value;
  return *nowhere;
}
[[gnu::noinline, gnu::no_sanitize("undefined")]] int call_no_function(int value) {
  return no_function(value) + 1;
}
[[gnu::noinline]] int recurse_to_death(int depth) {
  if (depth < 0) return 0;
  volatile char room[1000];
  room[0] = static_cast<char>(depth);
  return recurse_to_death(depth + 1) + room[0];
}
[[gnu::noinline]] void overheat(int degrees) {
  throw Overheated{"at " + std::to_string(degrees) + " degrees"};
}
int crash_in_a_task(int value) {
  return write_to_nowhere(value);
}

class Careless {
 public:
  explicit Careless(bool in_destructor) : in_destructor_{in_destructor} {}
  ~Careless() {
    if (in_destructor_) write_to_nowhere(1);
  }
  int work(int value) { return value; }
  int null(int value) { return write_to_nowhere(value); }
  int call_null(int value) { return call_no_function(value); }
  int recurse(int depth) { return recurse_to_death(depth); }
  // What is inlined has no scope in its name.
  [[gnu::noinline, gnu::no_sanitize("undefined")]] int divide(int value) { return value / zero; }
  [[gnu::noinline]] int abort(int) { std::abort(); }
  int terminate(int) noexcept {
    overheat(80);
    return 0;
  }
  int thread(int) {
    std::thread{&overheat, 90}.join();
    return 0;
  }

 private:
  bool in_destructor_;
};

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  {
    pharos::Runtime runtime;
    try {
      if (mode == "task") runtime.submit<&crash_in_a_task>(1).get();
      const auto actor = runtime.spawn<Careless>(pharos::ActorOptions{.name = "careless"}, mode == "destructor");
      if (mode == "null") actor.call<&Careless::null>(1).get();
      if (mode == "call_null") actor.call<&Careless::call_null>(1).get();
      if (mode == "recurse") actor.call<&Careless::recurse>(1).get();
      if (mode == "divide") actor.call<&Careless::divide>(1).get();
      if (mode == "abort") actor.call<&Careless::abort>(1).get();
      if (mode == "terminate") actor.call<&Careless::terminate>(1).get();
      if (mode == "thread") actor.call<&Careless::thread>(1).get();
      if (mode == "destructor") std::cout << actor.call<&Careless::work>(1).get() << std::endl;
    } catch (const pharos::Exception& e) {
      std::cout << e.what() << std::endl;
    }
  }
  std::cout << "the Runtime has ended" << std::endl;
}
