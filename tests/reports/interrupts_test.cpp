#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <pharos/ml/interrupts.hpp>

namespace pharos::ml {
namespace {

/// Waits so long that the next SIGINT counts as another request.
void let_pass(Duration time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) ::sched_yield();
}

TEST(InterruptsTest, TwoThatComeTogetherCountAsOne) {
  const Interrupts interrupts{std::chrono::hours{1}};  // longer than this process may wait for a core
  EXPECT_FALSE(Interrupts::asked());
  ASSERT_EQ(::raise(SIGINT), 0);
  EXPECT_TRUE(Interrupts::asked());
  ASSERT_EQ(::raise(SIGINT), 0);
  ASSERT_EQ(::raise(SIGINT), 0);
  EXPECT_TRUE(Interrupts::asked());
}

TEST(InterruptsTest, ALaterOneEndsTheProgram) {
  const auto ask_twice = [] {
    const Interrupts interrupts;
    ::raise(SIGINT);
    if (!Interrupts::asked()) std::exit(1);
    let_pass(Interrupts::kSameTime);
    ::raise(SIGINT);
    std::exit(0);
  };
  EXPECT_EXIT(ask_twice(), testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptsTest, TheNextOneBeginsAnew) {
  for (int i = 0; i < 2; ++i) {
    const Interrupts interrupts;
    EXPECT_FALSE(Interrupts::asked());
    ASSERT_EQ(::raise(SIGINT), 0);
    EXPECT_TRUE(Interrupts::asked());
  }
}

TEST(InterruptsTest, WhatTheProgramHasSaidStands) {
  static volatile sig_atomic_t seen = 0;
  const auto before = ::signal(SIGINT, [](int) { seen = seen + 1; });
  {
    const Interrupts interrupts;
    ASSERT_EQ(::raise(SIGINT), 0);
    EXPECT_FALSE(Interrupts::asked());
  }
  EXPECT_EQ(seen, 1);
  ::signal(SIGINT, before);
}

}  // namespace
}  // namespace pharos::ml
