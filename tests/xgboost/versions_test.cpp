#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/ml/xgboost.hpp>

#include "generated.hpp"

// A process can load only one version of XGBoost, so each version is tested in a child process.

namespace pharos::ml::xgboost {
namespace {

void write_all(int to, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to, bytes.data(), bytes.size());
    PHAROS_CHECK(written > 0);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

/// Returns the result of `work` in a child that has loaded that library.
std::vector<std::byte> in_child(const char* library, const std::function<std::vector<std::byte>()>& work) {
  std::array<int, 2> ends{};
  PHAROS_CHECK(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  PHAROS_CHECK(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    ::setenv("PHAROS_XGBOOST", library, 1);
    write_all(ends[1], work());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::vector<std::byte> all;
  std::array<std::byte, 4096> some{};
  for (ssize_t size = 0; (size = ::read(ends[0], some.data(), some.size())) > 0;) {
    all.insert(all.end(), some.begin(), some.begin() + size);
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << library;
  return all;
}

std::vector<std::byte> bytes_of(std::span<const float> numbers) {
  const auto bytes = std::as_bytes(numbers);
  return {bytes.begin(), bytes.end()};
}
std::span<const float> floats_in(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

class VersionsTest : public testing::Test {
 protected:
  Bytes model_of(const char* library) const {
    return Bytes{in_child(library, [&] {
      const Bytes model = train(logistic({{"max_depth", std::int64_t{4}}}), data_, held_out_, {.rounds = 40}).model;
      return std::vector<std::byte>{model.span().begin(), model.span().end()};
    })};
  }
  std::vector<std::byte> predicted_by(const char* library, const Bytes& model) const {
    return in_child(library, [&] { return bytes_of(Model{model}.predict(held_out_.features.span())); });
  }
  double auc_of(const std::vector<std::byte>& predicted) const {
    return auc(floats_in(predicted), held_out_.labels.span());
  }

  const Data all_ = two_classes(6000);
  const Data data_ = all_.slice(0, 4000);
  const Data held_out_ = all_.slice(4000, 6000);
};

TEST_F(VersionsTest, BothLearnAlike) {
  const double older = auc_of(predicted_by(XGBOOST_1_7, model_of(XGBOOST_1_7)));
  const double newer = auc_of(predicted_by(XGBOOST_3_2, model_of(XGBOOST_3_2)));
  EXPECT_GT(older, 0.88);
  EXPECT_NEAR(older, newer, 0.005);
}

TEST_F(VersionsTest, TheNewerPredictsTheSameWithAModelOfTheOlder) {
  const Bytes model = model_of(XGBOOST_1_7);
  const auto older = predicted_by(XGBOOST_1_7, model);
  const auto newer = predicted_by(XGBOOST_3_2, model);
  ASSERT_EQ(older.size(), newer.size());
  double farthest = 0;
  for (std::size_t row = 0; row < held_out_.rows(); ++row) {
    farthest = std::max(
        farthest, std::abs(static_cast<double>(floats_in(older)[row]) - static_cast<double>(floats_in(newer)[row])));
  }
  EXPECT_LT(farthest, 1e-5);
}

}  // namespace
}  // namespace pharos::ml::xgboost
