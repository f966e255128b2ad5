// A wire between a network port in this network namespace and one in another: `slow_wire PORT PROCESS MILLISECONDS
// JITTER SEED`. Each packet takes a random time, so that later packets may overtake earlier ones. The other end is
// "eth0" in the namespace of PROCESS. Prints "ready" when both ports exist. The ports exist as long as this program
// runs. After SIGUSR1 it prints how many packets it has carried, how many of them were overtaken by a later one of the
// same direction, and the sum of their times in milliseconds.

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kOnTheWayMax = 20'000;  // packets over this limit are lost

int must(int result, const char* what) {
  if (result < 0) throw std::runtime_error{std::string{what} + ": " + std::strerror(errno)};
  return result;
}

int open_port(const std::string& name) {
  const int port = must(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "opening /dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  must(::ioctl(port, TUNSETIFF, &request), "making a port");
  return port;
}

struct Packet {
  int to;
  std::vector<char> bytes;
  Clock::time_point came;
};

volatile std::sig_atomic_t asked = 0;

struct Count {
  std::uint64_t carried = 0;
  std::uint64_t overtaken = 0;
  Clock::duration times{};
  std::map<int, Clock::time_point> newest;  // by port: when the newest packet came that has arrived there

  void add(const Packet& packet) {
    ++carried;
    times += Clock::now() - packet.came;
    Clock::time_point& newest_here = newest[packet.to];
    // A packet that came before one that has arrived already was overtaken by it.
    overtaken += packet.came < newest_here ? 1 : 0;
    newest_here = std::max(newest_here, packet.came);
  }
  void print() const {
    std::cout << carried << ' ' << overtaken << ' '
              << std::chrono::duration_cast<std::chrono::milliseconds>(times).count() << std::endl;
  }
};

}  // namespace

int main(int, char** argv) {
  const std::array ports{open_port(argv[1]), [&] {
                           const std::string other = "/proc/" + std::string{argv[2]} + "/ns/net";
                           must(::setns(must(::open(other.c_str(), O_RDONLY | O_CLOEXEC), other.c_str()), CLONE_NEWNET),
                                "entering the other namespace");
                           return open_port("eth0");
                         }()};
  const int middle = std::stoi(argv[3]);
  const int jitter = std::stoi(argv[4]);
  std::mt19937 random{static_cast<std::mt19937::result_type>(std::stoul(argv[5]))};
  std::uniform_int_distribution<int> time{1000 * (middle - jitter), 1000 * (middle + jitter)};
  std::multimap<Clock::time_point, Packet> under_way;
  std::vector<char> room(1 << 16);
  Count count;
  ::signal(SIGUSR1, [](int) { asked = 1; });  // interrupts poll()
  std::cout << "ready" << std::endl;
  for (;;) {
    int wait = -1;
    if (!under_way.empty()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(under_way.begin()->first - Clock::now());
      wait = std::max(0, static_cast<int>(left.count()));
    }
    std::array<pollfd, 2> ready{{{ports[0], POLLIN, 0}, {ports[1], POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), wait);
    if (asked != 0) {
      asked = 0;
      count.print();
    }
    for (std::size_t from = 0; from < ports.size(); ++from) {
      for (ssize_t n = 0; (n = ::read(ports[from], room.data(), room.size())) > 0;) {
        if (under_way.size() == kOnTheWayMax) continue;
        const auto arrives = Clock::now() + std::chrono::microseconds{time(random)};
        under_way.emplace(arrives, Packet{ports[1 - from], {room.data(), room.data() + n}, Clock::now()});
      }
    }
    while (!under_way.empty() && under_way.begin()->first <= Clock::now()) {
      const auto packet = under_way.extract(under_way.begin());
      count.add(packet.mapped());
      // The packet is lost if the port is not up yet, or is full.
      [[maybe_unused]] const auto n =
          ::write(packet.mapped().to, packet.mapped().bytes.data(), packet.mapped().bytes.size());
    }
  }
}
