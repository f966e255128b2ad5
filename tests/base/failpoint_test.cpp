#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <pharos/base/failpoint.hpp>

#include "temporary_folder.hpp"

namespace pharos {
namespace {

/// Keeps what it does out of the record of ./test: these tests call failpoint() themselves, and prove nothing of the
/// places in the code.
class FailpointTest : public testing::Test {
 protected:
  FailpointTest() { ::unsetenv("PHAROS_FAILPOINTS_REACHED"); }
  ~FailpointTest() override {
    order_failpoint({});
    ::unsetenv("PHAROS_FAILPOINTS_REACHED");
  }
};

TEST_F(FailpointTest, EachHasANameOfItsOwnThatIsRead) {
  std::set<std::string_view> names;
  for (int at = 0; at < static_cast<int>(Failpoint::kEnd); ++at) {
    const auto name = name_of(static_cast<Failpoint>(at));
    EXPECT_TRUE(names.insert(name).second) << name;
    const auto order = parse_failpoint(std::string{name} + ":fail:12");
    ASSERT_TRUE(order.ok());
    EXPECT_EQ(order->at, static_cast<Failpoint>(at));
    EXPECT_EQ(order->action, FailpointOrder::Action::kFail);
    EXPECT_EQ(order->passes, 12U);
  }
}

TEST_F(FailpointTest, WhatIsNoOrderIsRefused) {
  for (const char* const text : {"", "slot_begun", "slot_begun:", "slot_begun:burn", "nowhere:kill",
                                 "slot_begun:kill:x", "slot_begun:kill:1:2", "slot_begun:kill:-1"}) {
    EXPECT_FALSE(parse_failpoint(text).ok()) << text;
  }
}

TEST_F(FailpointTest, FailsFromThenOnAndNowhereElse) {
  EXPECT_FALSE(failpoint(Failpoint::kSlotProvided));
  order_failpoint({Failpoint::kSlotProvided, FailpointOrder::Action::kFail, 2});
  EXPECT_FALSE(failpoint(Failpoint::kSlotBegun));
  EXPECT_FALSE(failpoint(Failpoint::kSlotProvided));
  EXPECT_FALSE(failpoint(Failpoint::kSlotProvided));
  EXPECT_TRUE(failpoint(Failpoint::kSlotProvided));
  EXPECT_TRUE(failpoint(Failpoint::kSlotProvided));
}

TEST_F(FailpointTest, KillsAndStopsTheProcess) {
  for (const auto& [action, signal] :
       {std::pair{FailpointOrder::Action::kKill, SIGKILL}, std::pair{FailpointOrder::Action::kStop, SIGSTOP}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      order_failpoint({Failpoint::kSlotBegun, action, 0});
      failpoint(Failpoint::kSlotBegun);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    if (signal == SIGKILL) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    } else {
      EXPECT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
  }
}

TEST_F(FailpointTest, IsRecordedWhenItActsAndNotWhenItIsPassed) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "reached";
  const auto recorded = [&] {
    std::ifstream stream{file};
    return std::string{std::istreambuf_iterator<char>{stream}, {}};
  };
  ::setenv("PHAROS_FAILPOINTS_REACHED", file.c_str(), 1);
  order_failpoint({Failpoint::kSlotProvided, FailpointOrder::Action::kFail, 1});
  failpoint(Failpoint::kSlotProvided);
  EXPECT_EQ(recorded(), "");
  failpoint(Failpoint::kSlotProvided);
  failpoint(Failpoint::kSlotProvided);
  EXPECT_EQ(recorded(), "slot_provided\n");
  const pid_t child = ::fork();
  if (child == 0) {
    order_failpoint({Failpoint::kSlotBegun, FailpointOrder::Action::kKill, 0});
    failpoint(Failpoint::kSlotBegun);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(recorded(), "slot_provided\nslot_begun\n");
}

}  // namespace
}  // namespace pharos
