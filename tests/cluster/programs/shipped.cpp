// A program that the node with the resource "b" does not have: `shipped MODE`. It prints lines that tests look for, and
// "done" at its end. After an exception it prints "TYPE: message" and ends with status 1.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using pharos::cluster::say;

/// Makes the executable so large that it is sent in many parts.
[[gnu::used]] char ballast[4 << 20] = {1};

class Traveller {
 public:
  std::string executable() { return fs::read_symlink("/proc/self/exe"); }
  std::string node() { return to_string(pharos::context().node); }
  std::string folder() { return fs::current_path(); }
  std::string word() {
    const char* const word = std::getenv("SHIPPED_WORD");
    return word == nullptr ? "none" : word;
  }
};

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::after(25s, std::chrono::steady_clock::now()));
}

void look_around(pharos::Runtime& runtime) {
  const auto far = runtime.spawn<Traveller>({.name = "traveller", .resources = {{"b", 1}}});
  say("runs " + wait_for(far.call<&Traveller::executable>()));
  say("in " + wait_for(far.call<&Traveller::folder>()));
  say("word " + wait_for(far.call<&Traveller::word>()));
}

void say_where(const pharos::Actor<Traveller>& traveller) {
  say("node " + wait_for(traveller.call<&Traveller::node>()));
  say("runs " + wait_for(traveller.call<&Traveller::executable>()));
}

void wait_for_signal() {
  sigset_t awaited;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &awaited, nullptr);
  say("ready");
  int signal = 0;
  ::sigwait(&awaited, &signal);
  say("told to end");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "arguments") {
    for (int i = 2; i < argc; ++i) say(argv[i]);
    say("at " + std::string{std::getenv("PHAROS_ADDRESS")} + " with " + std::getenv("PHAROS_TOKEN_FILE"));
    say("in " + fs::current_path().string());
    return 7;
  }
  if (mode == "signal") return wait_for_signal(), 3;
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    // Replaces this executable by another one before a node has opened it.
    if (mode == "replaced") fs::rename(argv[2], fs::read_symlink("/proc/self/exe"));
    if (mode == "leaves") {
      return say_where(runtime.spawn<Traveller>(
          {.name = "stays", .name_space = "shipped", .resources = {{"b", 1}}, .max_restarts = -1, .detached = true}));
    }
    if (mode == "finds") return say_where(runtime.actor<Traveller>("stays", "shipped"));
    look_around(runtime);
  });
}
