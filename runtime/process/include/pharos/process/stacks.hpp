#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/process/written_stack.hpp>

/// Where the threads of a process are, while it goes on. Like a crash (crash.hpp) it is written down by signal
/// handlers, as addresses, in memory that the process shares with its zygote, and read by a child of that.
namespace pharos::process {

/// Of one process: the stacks that it was asked for. Fixed sizes and no pointers.
struct StackRecord {
  static constexpr std::size_t kThreadsMax = 64;

  enum State : std::uint32_t { kFree, kAsked, kBegun, kWritten };
  struct Thread {
    std::atomic<std::uint32_t> state = kFree;
    std::atomic<std::int32_t> number = 0;
    WrittenStack stack;
  };
  std::array<Thread, kThreadsMax> threads;
  std::uint32_t more_threads = 0;  ///< that there was no room for

  /// By who describes them; ends with a zero.
  std::array<char, 64 << 10> text = {};
};

/// From now on this process answers: by a signal of its own (kStackSignal), whose handler takes no lock and no memory,
/// and is gone before a system call that can be taken up again is. Not if the program has a handler for that signal.
/// Once, when no other thread runs; `record` stays for as long as the process.
void answer_stack_questions(StackRecord* record);

/// Far from those that programs and libraries use.
int stack_signal();

/// Where a walk along a stack that makes no sense ends, instead of the process: on a signal handler's way to it. Does
/// not return if this thread is on such a walk.
void leave_stack_walk();

/// Asks all threads of a process that has not been reaped. One that is stopped, that blocks the signal, or whose
/// handler is another's by now is left alone.
void ask_for_stacks(StackRecord& record, pid_t process);

/// Waits for those that were asked, for 2 s at most, and fills `text`, in this process: a thread each, with its name,
/// its functions, innermost first, and of one that has not answered why it may not.
void describe_stacks(StackRecord& record, pid_t process);

}  // namespace pharos::process
