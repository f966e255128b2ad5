#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <pharos/process/written_stack.hpp>

/// Takes the stacks of a running process's threads. As with crashes (crash.hpp), signal handlers write addresses to
/// memory that the process shares with its zygote, and a child of the zygote reads them.
namespace pharos::process {

/// The requested stacks of one process. It has fixed sizes and no pointers, because two processes share it. Part of a
/// CrashPage. The asking process serves one request at a time: a new request overwrites the answers of the one before.
struct StackRecord {
  static constexpr std::size_t kThreadsMax = 64;

  enum State : std::uint32_t { kFree, kAsked, kBegun, kWritten };
  struct Thread {
    std::atomic<std::uint32_t> state = kFree;
    std::atomic<std::int32_t> number = 0;
    WrittenStack stack;
  };
  std::array<Thread, kThreadsMax> threads;
  std::uint32_t more_threads = 0;  ///< number of threads that have no entry, because all entries are used

  /// Text for people, written by the process that describes the stacks. Ends with a zero.
  std::array<char, 64 << 10> text = {};
};

/// Installs the handler of stack_signal(), with which this process answers. The handler takes no lock and no memory,
/// and interrupted system calls are restarted where the kernel can do that. If the program handles or ignores the
/// signal, the process does not answer. To be called once, while no other thread runs. `record` must stay valid until
/// the process ends.
void answer_stack_questions(StackRecord* record);

/// The number of the signal: a real-time signal that programs and libraries hardly use.
int stack_signal();

/// For handlers of crashes. If the calling thread crashed while the handler of stack_signal() walked a broken stack,
/// this function ends that walk with a jump and does not return, so that the process goes on. Otherwise it does
/// nothing.
void leave_stack_walk();

/// Asks all threads of a process that has not been reaped, and does not wait for the answers. Sends no signal to
/// threads that are stopped, block the signal, or have no handler for it. Reports no failure: describe_stacks()
/// explains the threads without an answer.
void ask_for_stacks(StackRecord& record, pid_t process);

/// Waits for the answers, 2 s at most, and fills `text`: for each thread its name and its functions, innermost first,
/// or the probable reason why it has not answered. Finds the names in the files that the calling process has loaded,
/// which may take seconds or crash: the zygote calls it in a child. Cuts `text` off at its size.
void describe_stacks(StackRecord& record, pid_t process);

}  // namespace pharos::process
