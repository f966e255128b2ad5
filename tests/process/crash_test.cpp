#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <thread>

#include <pharos/process/backtrace.hpp>
#include <pharos/process/crash.hpp>

namespace pharos::process {
namespace {

int* volatile nowhere = nullptr;

[[gnu::noinline, gnu::no_sanitize("undefined")]] void write_to_nowhere() {
  *nowhere = 1;
}
[[gnu::noinline]] std::size_t capture_here(std::span<StackAddress> to) {
  const volatile std::size_t count = capture_stack(to);  // prevents a tail call, so that this function is on the stack
  return count;
}

#if defined(__x86_64__)
/// Crashes with a stack pointer that leads to nowhere, so that a walk along the stack crashes, too.
[[noreturn, gnu::noinline]] void crash_on_a_broken_stack() {
  asm volatile("xor %%eax, %%eax\n\tmov $64, %%rsp\n\tmov %%rsp, %%rbp\n\tmovl $1, (%%rax)" ::: "rax", "memory");
  __builtin_unreachable();
}
#endif

RunningFunction some_function() {
  return {"_Z3addii", nullptr};
}
RunningFunction no_function() {
  return {};
}
std::string as_it_is(const char* name) {
  return name;
}

/// Runs `act` in a child process that shares the page. Returns the wait status of the child.
int status_of(const CrashPage& page, const std::function<void()>& act, RunningFunction (*running)() = &no_function) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    record_crashes(&page.record(), running);
    prepare_thread_for_crashes();
    act();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(BacktraceTest, AFunctionOfThisProgramHasItsName) {
  std::array<StackAddress, 16> stack;
  const std::size_t count = capture_here(stack);
  ASSERT_GT(count, 1u);
  std::string names;
  for (std::size_t i = 0; i < count; ++i) {
    for (const Frame& frame : symbolize(stack[i].code)) names += frame.function + "\n";
  }
  EXPECT_NE(names.find("capture_here"), std::string::npos) << names;
  EXPECT_NE(names.find("AFunctionOfThisProgramHasItsName"), std::string::npos) << names;
}

TEST(BacktraceTest, StacksEndAboveEachOther) {
  std::array<StackAddress, 8> stack;
  const std::size_t count = capture_here(stack);
  for (std::size_t i = 1; i < count; ++i) EXPECT_GT(stack[i].end, stack[i - 1].end);
}

TEST(BacktraceTest, AnAddressWithoutCodeIsSaidToBeNone) {
  const auto frames = symbolize(std::uintptr_t{16});
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].to_string(), "no code+0x10");
}

TEST(BacktraceTest, TheStandardLibraryAndPharosAreTheRuntime) {
  const auto of_runtime = [](const char* name) {
    Frame frame;
    frame.name = name;
    return frame.of_runtime();
  };
  EXPECT_TRUE(of_runtime("_ZSt4sortIPiEvT_S1_"));
  EXPECT_TRUE(of_runtime("_ZNKSt6vectorIiSaIiEE2atEm"));
  EXPECT_TRUE(of_runtime("_ZN6pharos6detail14MethodFunctionI1AXadL_ZNS2_1fEvEEE4callEPvRNS_7DecoderERNS_7EncoderE"));
  EXPECT_FALSE(of_runtime("_ZN5Model4stepEi"));
  EXPECT_FALSE(of_runtime("_ZN6pharos7cluster4MineEv"));
  EXPECT_FALSE(of_runtime("main"));
}

TEST(CrashTest, ACrashIsWrittenDownAndItsSignalStillKills) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  const int status = status_of(*page, &write_to_nowhere, &some_function);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  CrashRecord& record = page->record();
  ASSERT_EQ(record.state.load(), CrashRecord::kWritten);
  describe_crash(record, {&as_it_is, true});
  EXPECT_EQ(record.state.load(), CrashRecord::kDescribed);
  const std::string report = record.report;
  EXPECT_TRUE(report.starts_with("*** SIGSEGV at address 0")) << report;
  EXPECT_NE(report.find("in a call of _Z3addii"), std::string::npos) << report;
  EXPECT_NE(report.find("#0 pharos::process::(anonymous namespace)::write_to_nowhere()"), std::string::npos) << report;
  EXPECT_NE(std::string{record.headline}.find("write_to_nowhere()"), std::string::npos) << record.headline;
}

#if defined(__x86_64__)
TEST(CrashTest, ACrashOnABrokenStackIsReportedWithoutTheStack) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  const int status = status_of(*page, &crash_on_a_broken_stack, &some_function);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  CrashRecord& record = page->record();
  ASSERT_EQ(record.state.load(), CrashRecord::kWritten);
  describe_crash(record, {&as_it_is, true});
  const std::string report = record.report;
  EXPECT_TRUE(report.starts_with("*** SIGSEGV at address 0")) << report;
  EXPECT_NE(report.find("in a call of _Z3addii"), std::string::npos) << report;
  EXPECT_NE(report.find("no frame of its stack could be read"), std::string::npos) << report;
}
#endif

TEST(CrashTest, WhatWasSentKillsToo) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  const int status = status_of(*page, [] { ::raise(SIGBUS); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
  EXPECT_EQ(page->record().state.load(), CrashRecord::kWritten);
}

TEST(CrashTest, WithoutSymbolsThereAreFilesAndOffsets) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  status_of(*page, &write_to_nowhere);
  describe_crash(page->record(), {&as_it_is, false});
  const std::string report = page->record().report;
  EXPECT_NE(report.find("outside of calls"), std::string::npos) << report;
  EXPECT_NE(report.find("#0 the program+0x"), std::string::npos) << report;
}

TEST(CrashTest, AProcessWithoutDescriptorsLeavesItsReport) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  status_of(*page, [] {
    ::close_range(0, ~0U, 0);
    write_to_nowhere();
  });
  EXPECT_EQ(page->record().state.load(), CrashRecord::kWritten);
}

TEST(CrashTest, AProcessThatEndsWellLeavesNone) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(status_of(*page, [] {}), 0);
  EXPECT_EQ(page->record().state.load(), CrashRecord::kNone);
}

TEST(CrashTest, AHandlerThatWasThereBeforeIsLeftAlone) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  const auto before = ::signal(SIGFPE, [](int) { ::_exit(77); });
  const int status = status_of(*page, [] { ::raise(SIGFPE); });
  ::signal(SIGFPE, before);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 77);
  EXPECT_EQ(page->record().state.load(), CrashRecord::kNone);
}

TEST(CrashTest, APageThatWasReceivedIsTheSameMemory) {
  const auto page = CrashPage::make();
  ASSERT_TRUE(page.ok());
  const auto other = CrashPage::receive(Fd{::dup(page->descriptor())});
  ASSERT_TRUE(other.ok());
  page->record().signal = 11;
  EXPECT_EQ(other->record().signal, 11);
}

TEST(CrashTest, TheSignalStackOfAThreadEndsWithTheThread) {
  stack_t stack{};
  std::thread{[&stack] {
    prepare_thread_for_crashes();
    ::sigaltstack(nullptr, &stack);
  }}.join();
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer provides signal stacks of its own";
#endif
  ASSERT_EQ(stack.ss_flags & SS_DISABLE, 0);
  EXPECT_EQ(::msync(stack.ss_sp, stack.ss_size, MS_ASYNC), -1);
  EXPECT_EQ(errno, ENOMEM) << "the memory is still mapped";
}

}  // namespace
}  // namespace pharos::process
