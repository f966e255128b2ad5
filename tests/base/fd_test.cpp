#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include <pharos/base/fd.hpp>

namespace pharos {
namespace {

bool open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

Fd some_fd() {
  return Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

TEST(Fd, IsClosedByWhoeverHoldsItLast) {
  int number = -1;
  {
    Fd first = some_fd();
    number = first.get();
    const Fd second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_TRUE(second);
    EXPECT_TRUE(open(number));
  }
  EXPECT_FALSE(open(number));
}

TEST(Fd, AssignmentClosesWhatWasHeldBefore) {
  Fd fd = some_fd();
  const int before = fd.get();
  Fd other = some_fd();
  const int after = other.get();
  fd = std::move(other);
  EXPECT_FALSE(open(before));
  EXPECT_EQ(fd.get(), after);
  EXPECT_TRUE(open(after));
}

TEST(Fd, ReleaseLeavesItOpenAndResetClosesIt) {
  Fd fd = some_fd();
  const int number = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(open(number));
  Fd{number}.reset();
  EXPECT_FALSE(open(number));
}

}  // namespace
}  // namespace pharos
