#include <sys/random.h>

#include <cerrno>
#include <thread>

#include <pharos/base/check.hpp>
#include <pharos/base/machine.hpp>

namespace pharos {
namespace detail {
namespace {

class RealMachine final : public Machine {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void sleep(Duration time) override { std::this_thread::sleep_for(time); }
  void fill_random(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto n = ::getrandom(bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      PHAROS_CHECK(n > 0, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
};

constinit RealMachine real_machine;
constinit Machine* machine = &real_machine;

}  // namespace

Machine& Machine::present() {
  return *machine;
}

void Machine::replace(Machine* other) {
  machine = other == nullptr ? &real_machine : other;
}

}  // namespace detail

TimePoint now() {
  return detail::Machine::present().now();
}

void sleep(Duration time) {
  detail::Machine::present().sleep(time);
}

}  // namespace pharos
