#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>

#include <pharos/process/descendants.hpp>

#include "no_descriptors.hpp"
#include "processes.hpp"

namespace pharos::process {
namespace {

TEST(Descendants, AreChildrenAndTheirChildrenAndNobodyElse) {
  Pipe begun;
  Pipe alive;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::fork() == 0) {
      write_byte(begun.to);
      for (;;) ::pause();
    }
    write_byte(begun.to);
    for (;;) ::pause();
  }
  ASSERT_TRUE(begun.read_byte());
  ASSERT_TRUE(begun.read_byte());
  const auto found = descendants();
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(std::count(found.begin(), found.end(), child), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), ::getpid()), 0);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(alive.read_until_end()) << "the grandchild is gone too";
}

// The test runs in a child process, because it becomes a subreaper and reaps every child.
TEST(Descendants, AKillReachesAGrandchildThatHidInASessionOfItsOwn) {
  Pipe alive;
  const int status = in_a_child([&] {
    alive.from.reset();
    become_subreaper();
    Pipe begun;
    start_hidden_grandchild(alive.to, begun);
    if (descendants().size() != 1) return 1;
    if (!kill_descendants(soon()).ok()) return 2;
    return descendants().empty() ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(alive.read_until_end());
}

TEST(Descendants, AKillReachesThoseThatAreStartedMeanwhile) {
  const int status = in_a_child([] {
    become_subreaper();
    Pipe begun;
    for (int i = 0; i < 3; ++i) {
      if (::fork() != 0) continue;
      for (;;) {  // each process starts others until it is killed
        const pid_t child = ::fork();
        if (child == 0) {
          [[maybe_unused]] const auto n = ::write(begun.to.get(), "x", 1);
          ::usleep(200);
          ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
      }
    }
    for (int i = 0; i < 10; ++i) {
      if (!begun.read_byte()) return 1;
    }
    if (!kill_descendants(soon()).ok()) return 2;
    return descendants().empty() ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}

TEST(Descendants, AKillThatCannotReadWhomToKillIsAnError) {
  const int status = in_a_child([] {
    become_subreaper();
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
    {
      const auto deadline = soon();  // UBSan needs descriptors when it first sees a clock
      const NoDescriptors none;
      const auto blind = kill_descendants(deadline);
      if (blind.ok()) return 1;
      if (blind.error().code() != ErrorCode::kExhausted) return 2;
    }
    if (!kill_descendants(soon()).ok()) return 3;
    return descendants().empty() ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

TEST(Descendants, WithNoneThereIsNothingToKill) {
  EXPECT_EQ(in_a_child([] { return kill_descendants(soon()).ok() ? 0 : 1; }), 0);
}

}  // namespace
}  // namespace pharos::process
