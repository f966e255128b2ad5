// Actors that are each at something else, for `pharos stack`. Says "ready" when they are, and each's process.

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
      ::usleep(0);  // its library holds signals back until a thread calls something that it knows
#endif
    }
  }
  /// So many seconds, or less when it is disturbed.
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
  /// Until the other end writes: never interrupted where it was restarted.
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
