#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/process/crash.hpp>
#include <pharos/process/stacks.hpp>

namespace pharos::process {
namespace {

using namespace std::chrono_literals;

volatile int turns = 0;

[[gnu::noinline]] void turn_for_ever() {
  while (true) {
    turns = turns + 1;
#ifdef __SANITIZE_THREAD__
    ::usleep(0);  // the sanitizer delays signals until the thread calls a function that it intercepts
#endif
  }
}
[[gnu::noinline]] void allocate_for_ever() {
  while (true) {
    std::vector<void*> blocks;
    for (std::size_t size = 1; size < 2000; size += 7) blocks.push_back(std::malloc(size));
    for (void* const block : blocks) std::free(block);
  }
}
/// Runs with a stack pointer and a frame pointer that point to no memory, so that the stack cannot be walked.
[[gnu::noinline]] void turn_without_stack() {
#if defined(__x86_64__)
  asm volatile(
      "mov $64, %%rbp\n"
      "mov $64, %%rsp\n"
      "1: jmp 1b\n" ::
          : "memory");
#endif
  turn_for_ever();
}

/// A child process that runs `act` on its first thread, and can be asked for its stacks.
class Asked {
 public:
  explicit Asked(const std::function<void()>& act) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    process_ = ::fork();
    if (process_ == 0) {
      answer_stack_questions(&page_->stacks());
      record_crashes(&page_->record(), [] { return RunningFunction{}; });
      prepare_thread_for_crashes();
      [[maybe_unused]] const auto told = ::write(ends[1], "r", 1);
      act();
      ::_exit(0);
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Asked(Asked&&) = delete;
  ~Asked() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  pid_t process() const { return process_; }
  void send_question() const { ask_for_stacks(page_->stacks(), process_); }
  std::string ask() const {
    ask_for_stacks(page_->stacks(), process_);
    describe_stacks(page_->stacks(), process_);
    return page_->stacks().text.data();
  }
  /// Asks until the answer has `part`, because `act` may not have begun yet. Gives up after 1000 tries.
  std::string ask_until(const std::string& part) const {
    std::string text;
    for (int i = 0; i < 1000 && (text = ask()).find(part) == std::string::npos; ++i) std::this_thread::yield();
    return text;
  }
  bool lives() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  }

 private:
  Result<CrashPage> page_ = CrashPage::make();
  pid_t process_ = 0;
};

TEST(StacksTest, EachThreadIsWhereItIs) {
  const Asked asked{[] {
    std::thread{&turn_for_ever}.detach();
    allocate_for_ever();
  }};
  for (const char* const where : {"turn_for_ever", "allocate_for_ever"}) {
    const std::string text = asked.ask_until(where);
    EXPECT_NE(text.find(where), std::string::npos) << text;
  }
}

TEST(StacksTest, OneThatAllocatesIsAskedOftenAndGoesOn) {
  const Asked asked{&allocate_for_ever};
  for (int i = 0; i < 300; ++i) asked.send_question();
  EXPECT_NE(asked.ask_until("allocate_for_ever").find("allocate_for_ever"), std::string::npos);
  EXPECT_TRUE(asked.lives());
}

TEST(StacksTest, AStackThatMakesNoSenseEndsTheWalkAndNothingElse) {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "written for plain x86-64";
#endif
  const Asked asked{&turn_without_stack};
  for (int i = 0; i < 5; ++i) {
    const std::string text = asked.ask();
    EXPECT_NE(text.find("thread " + std::to_string(asked.process())), std::string::npos) << text;
  }
  EXPECT_TRUE(asked.lives());
}

TEST(StacksTest, OneThatIsStoppedIsSaidToBeAndFindsNothingWhenItGoesOn) {
  const Asked asked{&turn_for_ever};
  ::kill(asked.process(), SIGSTOP);
  int status = 0;
  ::waitpid(asked.process(), &status, WUNTRACED);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(asked.ask().find("it is stopped"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  ::kill(asked.process(), SIGCONT);
  EXPECT_NE(asked.ask_until("turn_for_ever").find("turn_for_ever"), std::string::npos);
}

TEST(StacksTest, AReadThatIsAskedGoesOnReading) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    const Asked asked{[&] {
      char byte = 0;
      ::_exit(::read(ends[0], &byte, 1) == 1 ? byte : 1);
    }};
    EXPECT_NE(asked.ask_until("read").find("read"), std::string::npos);
    EXPECT_EQ(::write(ends[1], "*", 1), 1);
    siginfo_t ended{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(asked.process()), &ended, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(ended.si_status, '*');
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(StacksTest, AnotherProgramOrHandlerIsLeftAlone) {
  const Asked other{[] { ::execl("/bin/sleep", "sleep", "600", nullptr); }};
  // The test waits until the process has become "sleep". A question sent before would reach the new program, which has
  // no handler for the signal and would end.
  const auto patience = std::chrono::steady_clock::now() + 10s;
  std::string name;
  while (name != "sleep" && std::chrono::steady_clock::now() < patience) {
    std::ifstream{"/proc/" + std::to_string(other.process()) + "/comm"} >> name;
  }
  const std::string text = other.ask_until("its process does not answer: ");
  EXPECT_NE(text.find("its process does not answer: "), std::string::npos) << text;
  EXPECT_TRUE(other.lives());
  const Asked blocks{[] {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    turn_for_ever();
  }};
  EXPECT_NE(blocks.ask_until("it blocks signals").find("it blocks signals"), std::string::npos);
}

}  // namespace
}  // namespace pharos::process
