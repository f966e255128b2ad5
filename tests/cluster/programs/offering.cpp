// A program that makes detached actors, which programs of other builds find and call: `offering [RESOURCE]`. The actors
// take a half of the resource.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace shop {

struct Price {
  std::string currency;
  double amount = 0;
};
struct Receipt {
  int things = 0;
  double sum = 0;
};
struct SoldOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Till {
 public:
  int add(int amount) { return total_ += amount; }
  int total() const { return total_; }
  Price price_of(const std::string& thing, Price discount) const {
    return {discount.currency, static_cast<double>(thing.size()) - discount.amount};
  }
  int file(const Receipt& receipt) const { return receipt.things; }
  std::vector<double> doubled(std::vector<double> values) {
    for (double& each : values) each *= 2;
    return values;
  }
  pharos::Async<int> later(int milliseconds) {
    const auto slept = co_await pharos::async::sleep(std::chrono::milliseconds{milliseconds});
    if (!slept) pharos::throw_error(slept.error());
    co_return total_;
  }
  void busy(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds{milliseconds}); }
  void fail() { throw SoldOut{"nothing is left"}; }
  void die() { ::raise(SIGKILL); }

  // NOLINTBEGIN(readability-identifier-naming): Pharos's names
  static constexpr auto pharos_throws = pharos::types<SoldOut>;
  static constexpr auto pharos_methods =
      pharos::methods<&Till::add, &Till::total, &Till::price_of, &Till::file, &Till::doubled, &Till::later, &Till::busy,
                      &Till::fail, &Till::die>;
  // NOLINTEND(readability-identifier-naming)

 private:
  int total_ = 0;
};

class Safe {
 public:
  int code() const { return 7; }
};

}  // namespace shop

int main(int argc, char** argv) {
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    std::map<std::string, double> resources;
    if (argc > 1) resources.emplace(argv[1], 0.5);
    const auto till = runtime.spawn<shop::Till>(
        {.name = "till", .name_space = "shop", .resources = resources, .max_restarts = -1, .detached = true});
    const auto safe =
        runtime.spawn<shop::Safe>({.name = "safe", .name_space = "shop", .resources = resources, .detached = true});
    till.call<&shop::Till::add>(1).get();
    safe.call<&shop::Safe::code>().get();
  });
}
