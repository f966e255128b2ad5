// A program that waits in the way that MODE names: `waiting_program MODE`. On SIGQUIT it reports what it waits for.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include <pharos/pharos.hpp>

namespace {

class Slow {
 public:
  Slow() = default;
  explicit Slow(int) {}
  int stay(int seconds) {
    std::cout << "staying" << std::endl;
    std::this_thread::sleep_for(std::chrono::seconds{seconds});
    return seconds;
  }
  int ask(pharos::Actor<Slow> other, int seconds) { return other.call<&Slow::stay>(seconds).get(); }
  pharos::Async<int> await(pharos::Actor<Slow> other, int seconds) {
    co_return co_await other.call<&Slow::stay>(seconds);
  }
  int stop_itself() {
    std::cout << "staying" << std::endl;
    return ::raise(SIGSTOP);
  }
  int process() { return ::getpid(); }
};

int work_for(int seconds) {
  std::cout << "staying" << std::endl;
  std::this_thread::sleep_for(std::chrono::seconds{seconds});
  return seconds;
}
int add_one(int value) {
  return value + 1;
}

void own_handler(int) {
  const char* const text = "the program's own handler\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (mode == "own") ::signal(SIGQUIT, &own_handler);
  pharos::RuntimeOptions options;
  options.cpus = 1;
  pharos::Runtime runtime{options};
  const auto deep = runtime.spawn<Slow>(pharos::ActorOptions{.name = "deep"});
  const auto front = runtime.spawn<Slow>(pharos::ActorOptions{.name = "front"});
  std::cout << deep.call<&Slow::process>().get() << std::endl;
  if (mode == "chain" || mode == "own") front.call<&Slow::ask>(deep, 60).get();
  if (mode == "coroutine") front.call<&Slow::await>(deep, 60).get();
  if (mode == "cpus") {
    const auto first = runtime.submit<&work_for>(60);
    runtime.submit<&add_one>(1).get();
  }
  if (mode == "half") runtime.submit<&work_for>({.cpus = 0.5}, 60).get();
  if (mode == "gpu task" || mode == "gpu actor") {
    const auto trainer = runtime.spawn<Slow>({.name = "trainer", .gpus = 1});
    trainer.call<&Slow::process>().get();
    if (mode == "gpu task") {
      std::cout << "staying" << std::endl;
      runtime.submit<&add_one>({.gpus = 1}, 1).get();
    }
    const auto greedy = runtime.spawn<Slow>({.name = "greedy", .gpus = 1});
    runtime.actor<Slow>("greedy");  // returns once the head knows the actor
    std::cout << "staying" << std::endl;
    greedy.call<&Slow::process>().get();
  }
  if (mode == "gpu behind task") {
    const auto first = runtime.submit<&work_for>({.gpus = 1}, 60);
    runtime.spawn<Slow>({.name = "greedy", .gpus = 1}).call<&Slow::process>().get();
  }
  if (mode == "left behind") {
    const auto slow = front.call<&Slow::await>(deep, 60);
    for (int i = 0; i < 4000; ++i) front.call<&Slow::process>().get();
    slow.get();
  }
  if (mode == "argument") {
    const auto value = deep.call<&Slow::stay>(60);
    runtime.submit<&add_one>(value).get();
  }
  if (mode == "promised") {
    const auto late = runtime.spawn<Slow>({.name = "late"}, deep.call<&Slow::stay>(60));
    runtime.actor<Slow>("late").call<&Slow::process>().get();
  }
  if (mode == "stopped") deep.call<&Slow::stop_itself>().get();
}
