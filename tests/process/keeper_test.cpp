#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <pharos/base/failpoint.hpp>
#include <pharos/process/failpoints.hpp>
#include <pharos/process/keeper.hpp>
#include <pharos/process/run_folder.hpp>

#include "processes.hpp"

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

bool ignores_hangup(pid_t process) {
  std::ifstream file{"/proc/" + std::to_string(process) + "/status"};
  for (std::string word; file >> word;) {
    if (word != "SigIgn:") continue;
    file >> word;
    return (std::stoull(word, nullptr, 16) & (1U << (SIGHUP - 1))) != 0;
  }
  return false;
}

/// A keeper and its daemon, as descendants of this process. The daemon sends its pid over a pipe and then runs `work`.
class KeeperTest : public testing::Test {
 protected:
  void start(const std::function<int(Kept&)>& work) {
    keeper_ = ::fork();
    PHAROS_CHECK(keeper_ >= 0, errno);
    if (keeper_ != 0) return;
    ::_exit(run_keeper(folder_.path(), [&](Kept kept) {
      PHAROS_CHECK(make_run_folder(kept.run_folder).ok());
      const pid_t self = ::getpid();
      PHAROS_CHECK(::write(said_.to.get(), &self, sizeof self) == sizeof self);
      return work(kept);
    }));
  }
  pid_t daemon_pid() {
    pollfd waited{.fd = said_.from.get(), .events = POLLIN, .revents = 0};
    pid_t pid = 0;
    PHAROS_CHECK(::poll(&waited, 1, 30'000) == 1);
    PHAROS_CHECK(::read(said_.from.get(), &pid, sizeof pid) == sizeof pid);
    return pid;
  }
  int wait_for_keeper() {
    int status = 0;
    EXPECT_EQ(::waitpid(keeper_, &status, 0), keeper_);
    return status;
  }

  TemporaryFolder folder_;
  Pipe said_;
  Pipe alive_;  // the processes below the daemon hold its write end
  pid_t keeper_ = 0;
};

TEST_F(KeeperTest, EndsWithTheDaemonsStatusAndRemovesItsFolder) {
  start([](Kept& kept) { return fs::exists(kept.run_folder + "/lock") ? 7 : 1; });
  const int status = wait_for_keeper();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(KeeperTest, ADaemonThatIsToldToEndBeforeItHasBegunEndsWell) {
  start([](const Kept&) { return ::pause(); });
  daemon_pid();
  ASSERT_EQ(::kill(keeper_, SIGTERM), 0);
  const int status = wait_for_keeper();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(KeeperTest, ADaemonThatSomebodyElseKillsHasNotEndedWell) {
  start([](const Kept&) { return ::pause(); });
  ASSERT_EQ(::kill(daemon_pid(), SIGTERM), 0);
  const int status = wait_for_keeper();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

TEST_F(KeeperTest, MayBeToldToEndBeforeItKnowsTheDaemon) {
  keeper_ = ::fork();
  PHAROS_CHECK(keeper_ >= 0, errno);
  if (keeper_ == 0) {
    order_failpoint({failpoints::kDaemonForked, FailpointOrder::Action::kStop});
    ::_exit(run_keeper(folder_.path(), [&](const Kept&) {
      sigset_t told;
      ::sigemptyset(&told);
      ::sigaddset(&told, SIGTERM);
      ::sigprocmask(SIG_BLOCK, &told, nullptr);
      write_byte(said_.to);
      const timespec most{.tv_sec = 10, .tv_nsec = 0};
      return ::sigtimedwait(&told, nullptr, &most) == SIGTERM ? 7 : 1;
    }));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(keeper_, &status, WUNTRACED), keeper_);
  ASSERT_TRUE(WIFSTOPPED(status));
  ASSERT_TRUE(said_.read_byte());
  ASSERT_EQ(::kill(keeper_, SIGTERM), 0);
  ASSERT_EQ(::kill(keeper_, SIGCONT), 0);
  status = wait_for_keeper();
  ASSERT_TRUE(WIFEXITED(status)) << "killed by " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(KeeperTest, WhenTheDaemonIsKilledNoProcessAndNoFolderIsLeft) {
  start([&](Kept&) {
    Pipe begun;
    start_hidden_grandchild(alive_.to, begun);
    start_hidden_grandchild(alive_.to, begun);
    write_byte(said_.to);
    for (;;) ::pause();
    return 0;
  });
  const pid_t daemon = daemon_pid();
  ASSERT_TRUE(said_.read_byte());
  ASSERT_FALSE(fs::is_empty(folder_.path()));
  ASSERT_EQ(::kill(daemon, SIGKILL), 0);
  EXPECT_TRUE(alive_.read_until_end()) << "a process is left";
  const int status = wait_for_keeper();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(KeeperTest, WhenTheDaemonEndsByItselfItsProcessesEndToo) {
  start([&](Kept&) {
    Pipe begun;
    start_hidden_grandchild(alive_.to, begun);
    return 3;
  });
  EXPECT_TRUE(alive_.read_until_end());
  EXPECT_EQ(WEXITSTATUS(wait_for_keeper()), 3);
}

TEST_F(KeeperTest, TheDaemonSeesTheEndOfItsKeeper) {
  start([&](Kept& kept) {
    write_byte(said_.to);
    pollfd waited{.fd = kept.keeper_alive.get(), .events = POLLIN, .revents = 0};
    char byte = 0;
    const bool ended = ::poll(&waited, 1, 30'000) == 1 && ::read(kept.keeper_alive.get(), &byte, 1) == 0;
    remove_run_folder(kept.run_folder);
    if (ended) write_byte(said_.to);
    return 0;
  });
  daemon_pid();
  ASSERT_TRUE(said_.read_byte());
  ASSERT_EQ(::kill(keeper_, SIGKILL), 0);
  EXPECT_EQ(WTERMSIG(wait_for_keeper()), SIGKILL);
  EXPECT_TRUE(said_.read_byte()) << "the daemon has not seen it";
}

TEST_F(KeeperTest, KeepsNoDescriptorOfTheProcessThatStartedIt) {
  Pipe held;
  start([&](Kept&) {
    held.to.reset();
    for (;;) ::pause();
    return 0;
  });
  const pid_t daemon = daemon_pid();
  EXPECT_TRUE(held.read_until_end()) << "the keeper holds a pipe that is none of its business";
  ::kill(daemon, SIGKILL);
  wait_for_keeper();
}

TEST_F(KeeperTest, UnderNohupAHangupEndsNeitherTheKeeperNorTheDaemon) {
  Pipe held;
  ::signal(SIGHUP, SIG_IGN);
  start([&](Kept&) {
    held.to.reset();
    for (;;) ::pause();
    return 0;
  });
  ::signal(SIGHUP, SIG_DFL);
  const pid_t daemon = daemon_pid();
  ASSERT_TRUE(held.read_until_end());  // the keeper closes descriptors once it has set up its signals
  EXPECT_TRUE(ignores_hangup(keeper_));
  EXPECT_TRUE(ignores_hangup(daemon));
  ::kill(daemon, SIGKILL);
  wait_for_keeper();
}

}  // namespace
}  // namespace pharos::process
