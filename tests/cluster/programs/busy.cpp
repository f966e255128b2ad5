// Actors that each do something different, for the tests of `pharos stack`. Prints each actor's name and process id,
// and "ready" when all are busy.

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using pharos::cluster::say;

volatile std::uint64_t turns = 0;

class Busy {
 public:
  int process() { return ::getpid(); }
  void turn() {
    while (true) {
      turns = turns + 1;
#ifdef __SANITIZE_THREAD__
      ::usleep(0);  // the sanitizer delays signals until the thread calls a function that it intercepts
#endif
    }
  }
  /// Returns the seconds that were left when a signal interrupted the sleep; 0 if none did.
  unsigned sleep(unsigned seconds) {
    return ::sleep(seconds);
  }
  void allocate() {
    while (true) {
      std::vector<void*> blocks;
      for (std::size_t size = 1; size < 2000; size += 7) blocks.push_back(std::malloc(size));
      for (void* const block : blocks) std::free(block);
    }
  }
  int wait_for(const pharos::Actor<Busy>& other) {
    return other.call<&Busy::process>().get();
  }
  /// Blocks for ever, because nothing writes to the pipe: a signal must restart read(), not interrupt it.
  int read() {
    int ends[2];
    if (::pipe(ends) != 0) return -1;
    char byte = 0;
    return static_cast<int>(::read(ends[0], &byte, 1));
  }
};

}  // namespace

int main() {
  return pharos::cluster::report([] {
    pharos::Runtime runtime;
    const auto spawn = [&](const std::string& name) {
      const auto actor = runtime.spawn<Busy>({.name = name, .cpus = 0});
      say(name + " " + std::to_string(actor.call<&Busy::process>().get()));
      return actor;
    };
    const auto turns_on = spawn("turning");
    const auto sleeps = spawn("sleeping");
    const auto allocates = spawn("allocating");
    const auto waits = spawn("waiting");
    const auto stopped = spawn("stopped");
    const auto reads = spawn("reading");
    const auto turned = turns_on.call<&Busy::turn>();
    const auto slept = sleeps.call<&Busy::sleep>(600U);
    const auto allocated = allocates.call<&Busy::allocate>();
    const auto waited = waits.call<&Busy::wait_for>(turns_on);
    const auto read = reads.call<&Busy::read>();
    say("ready");
    waited.get();
  });
}
