// Runs all tests once without delays, and then with random delays of each stream: once for each of PHAROS_DEVICE_SEEDS
// (5) seeds, from PHAROS_DEVICE_FIRST_SEED (1) on. At the end of each test the streams are drained, and no access may
// have been unordered.

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>

#include "devices.hpp"

namespace pharos::simulated {
namespace {

constexpr std::chrono::microseconds kLongestDelay{200};

int number(const char* variable, int usually) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? usually : std::atoi(given);
}

class InManyOrders final : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
    const bool delays = iteration != 0;
    const int seed = number("PHAROS_DEVICE_FIRST_SEED", 1) + iteration - 1;
    std::printf("streams %s\n", delays ? ("delay their work by seed " + std::to_string(seed)).c_str() : "do not delay");
    streams().set_delays(static_cast<std::uint64_t>(seed), delays ? kLongestDelay : kLongestDelay.zero());
  }
  void OnTestEnd(const testing::TestInfo&) override {
    try {
      streams().synchronize();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "a kernel failed: " << error.what();
    }
    for (const std::string& each : order().take_reports()) ADD_FAILURE() << each;
  }
};

}  // namespace
}  // namespace pharos::simulated

int main(int argc, char** argv) {
  GTEST_FLAG_SET(repeat, pharos::simulated::number("PHAROS_DEVICE_SEEDS", 5) + 1);
  testing::InitGoogleTest(&argc, argv);
  // The threads of streams keep the number of threads that there was when they began, and sums depend on it.
  torch::set_num_threads(1);
  testing::UnitTest::GetInstance()->listeners().Append(new pharos::simulated::InManyOrders);
  return RUN_ALL_TESTS();
}
