// A program whose actor or task crashes: `crashing_program null|call_null|recurse|terminate|thread|abort|destructor|
// divide|task|loop`. It prints the error that it gets.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include <pharos/pharos.hpp>

namespace {

using namespace std::chrono_literals;

int* volatile nowhere = nullptr;
int (*volatile no_function)(int) = nullptr;
volatile int zero = 0;

struct Overheated : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Each crash has a function of its own, so that the report shows its name. The undefined behaviour sanitizer is off in
// the functions where it would report before the crash.
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
  // The name of an inlined function has no scope, so these functions are not inlined.
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

/// Crashes in its constructor.
class Stillborn {
 public:
  Stillborn() { write_to_nowhere(1); }
  int work() { return 1; }
};

/// Returns how many calls are answered within `time`.
int calls_in(const pharos::Actor<Careless>& actor, std::chrono::milliseconds time) {
  int calls = 0;
  const auto until = std::chrono::steady_clock::now() + time;
  for (; std::chrono::steady_clock::now() < until; ++calls) actor.call<&Careless::work>(calls).get();
  return calls;
}

/// Runs three actors: one crashes until its three restarts are used up, one crashes until it is killed, and one works.
void run_loop(pharos::Runtime& runtime) {
  const auto worker = runtime.spawn<Careless>(pharos::ActorOptions{.name = "worker"}, false);
  calls_in(worker, 500ms);
  const int before = calls_in(worker, 2s);
  const auto endless = runtime.spawn<Stillborn>({.name = "endless", .max_restarts = -1});
  const auto pending = endless.call<&Stillborn::work>();
  const auto thrice = runtime.spawn<Stillborn>({.name = "thrice", .max_restarts = 3});
  try {
    thrice.call<&Stillborn::work>().get();
  } catch (const pharos::ActorDied& e) {
    std::cout << e.what() << std::endl;
  }
  calls_in(worker, 2s);
  std::cout << "as quick as before: " << (calls_in(worker, 2s) > before / 2 ? "yes" : "no") << std::endl;
  endless.kill();
  try {
    pending.get();
  } catch (const pharos::ActorDied& e) {
    std::cout << e.what() << std::endl;
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  {
    pharos::Runtime runtime;
    try {
      if (mode == "loop") run_loop(runtime);
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
