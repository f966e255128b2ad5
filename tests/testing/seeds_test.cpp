#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/testing/testing.hpp>

namespace pharos::testing {
namespace {

/// Sets a variable of the environment, and puts the old value back at the end.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_{name} {
    if (const char* const before = std::getenv(name)) before_ = before;
    if (value == nullptr) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value, 1);
    }
  }
  WithVariable(WithVariable&&) = delete;
  ~WithVariable() {
    if (before_.empty()) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, before_.c_str(), 1);
    }
  }

 private:
  const char* const name_;
  std::string before_;
};

class ForEachSeed : public ::testing::Test {
 protected:
  std::vector<std::uint64_t> taken(const Seeds& seeds) {
    std::vector<std::uint64_t> all;
    for_each_seed(seeds, [&](std::uint64_t seed) { all.push_back(seed); });
    return all;
  }

 private:
  const WithVariable seed_{"PHAROS_TEST_SEED", nullptr};
  const WithVariable seeds_{"PHAROS_TEST_SEEDS", nullptr};
};

TEST_F(ForEachSeed, TakesOneAfterTheOther) {
  EXPECT_EQ(taken({.count = 3}), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(taken({.count = 2, .first = 40}), (std::vector<std::uint64_t>{40, 41}));
}

TEST_F(ForEachSeed, TakesWhatTheEnvironmentSays) {
  {
    const WithVariable seed{"PHAROS_TEST_SEED", "17"};
    EXPECT_EQ(taken({.count = 3}), (std::vector<std::uint64_t>{17}));
  }
  const WithVariable seeds{"PHAROS_TEST_SEEDS", "2"};
  EXPECT_EQ(taken({.count = 100}), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(ForEachSeed, StopsAtAnExceptionAndSaysHowToReplayTheSeed) {
  std::uint64_t last = 0;
  const auto run = [&] {
    for_each_seed({.count = 10}, [&](std::uint64_t seed) {
      last = seed;
      if (seed == 4) throw std::runtime_error{"not this one"};
    });
  };
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(run(), std::runtime_error);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(last, 4U);
  EXPECT_NE(told.find("PHAROS_TEST_SEED=4 replays it"), std::string::npos) << told;
}

TEST_F(ForEachSeed, StopsWhenTheTestHasFailed) {
  std::uint64_t last = 0;
  ::testing::internal::CaptureStderr();
  for_each_seed({.count = 10, .failed = [&] { return last == 3; }}, [&](std::uint64_t seed) { last = seed; });
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(last, 3U);
  EXPECT_NE(told.find("seed 3 failed"), std::string::npos) << told;
}

}  // namespace
}  // namespace pharos::testing
