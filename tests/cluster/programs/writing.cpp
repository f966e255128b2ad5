// A program whose workers write and crash, for the tests of `pharos logs`: `writing MODE`. Each mode prints a line when
// the test can go on ("floods" writes it to the standard error), and then waits for a signal.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using pharos::cluster::say;

class Writer {
 public:
  void write(const std::string& text) {
    std::cout << text << " to out" << std::endl;
    std::cerr << text << " to err" << std::endl;
  }
  void crash() { std::abort(); }
  void flood(int lines) {
    const std::string line(1023, 'x');
    for (int i = 0; i < lines; ++i) std::cout << line << '\n';
    std::cout << "the last line" << std::endl;
  }
  /// Writes a line every 20 ms and never returns.
  void tick() {
    for (int i = 0;; ++i) {
      std::cout << "tick " << i << std::endl;
      std::this_thread::sleep_for(20ms);
    }
  }
  int process() { return ::getpid(); }
};

void crash(const pharos::Actor<Writer>& writer) {
  try {
    writer.call<&Writer::crash>().get();
  } catch (const pharos::ActorDied& e) {
    say("crashed");
  }
}

void run(pharos::Runtime& runtime, const std::string& mode) {
  const pharos::ActorOptions on_b{.resources = {{"b", 1}}};
  if (mode == "ends") {
    auto options = on_b;
    options.name = "restarted";
    options.max_restarts = 1;
    const auto restarted = runtime.spawn<Writer>(options);
    restarted.call<&Writer::write>("first").get();
    crash(restarted);
    restarted.call<&Writer::write>("second").get();
    crash(restarted);
    runtime.spawn<Writer>({.name = "twin"}).call<&Writer::write>("one").get();
    runtime.spawn<Writer>({.name = "twin", .name_space = "other"}).call<&Writer::write>("other").get();
    say("ready");
    ::pause();
  }
  const auto writer = runtime.spawn<Writer>({.name = "writer"});
  if (mode == "ticks") {
    say(std::to_string(writer.call<&Writer::process>().get()));
    const auto ticks = writer.call<&Writer::tick>();
    ::pause();
  }
  if (mode == "floods") {
    [[maybe_unused]] const auto* const nowhere = std::freopen("/dev/null", "w", stdout);
    writer.call<&Writer::flood>(40 << 10).get();
    std::cerr << "flooded" << std::endl;
    ::pause();
  }
}

}  // namespace

int main(int, char** argv) {
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    run(runtime, argv[1]);
  });
}
