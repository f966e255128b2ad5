#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/process/stacks.hpp>
#include <pharos/process/written_stack.hpp>

/// Crash reports of workers. Little code can run safely in a crashing process. So a signal handler only writes
/// addresses to memory that the worker shares with its zygote. The zygote has the same files loaded. A child of the
/// zygote, which may take long or fail, later turns the addresses into function names.
namespace pharos::process {

/// The data of one crash. It has fixed sizes and no pointers, because a signal handler writes it and another process
/// reads it. Part of a CrashPage. The reader waits for the end of the process, and then uses the other members if
/// `state` is kWritten or higher. The stack is written last, after kWritten. If the stack is so broken that the handler
/// itself crashes, or takes longer than 2 s, the record has none of its frames, or only some.
struct CrashRecord {
  enum State : std::uint32_t { kNone, kBegun, kWritten, kDescribed };
  std::atomic<std::uint32_t> state = kNone;

  // Written by the process that crashes.
  std::int32_t signal = 0;
  std::int32_t code = 0;      ///< si_code
  std::uint64_t address = 0;  ///< si_addr: the invalid address, for SIGSEGV and SIGBUS
  std::int32_t thread = 0;
  char function[1024] = {};       ///< mangled name of the user's function that the thread ran; empty if none
  char terminated_by[1024] = {};  ///< type and message of the exception that led to std::terminate
  WrittenStack stack;

  // Written by the process that describes the crash.
  char headline[2048] = {};
  char report[32 << 10] = {};
};

/// Shared memory for the records of one process, mapped by that process and by the process that started it. The zygote
/// makes one for each worker. The object owns the mapping and the descriptor; its destructor unmaps and closes. Not
/// thread-safe. make() and receive() fail with the error of errno. An object that was moved from or released has no
/// records.
class CrashPage {
 public:
  static Result<CrashPage> make();
  /// Maps a CrashPage of another process, from a copy of that process's descriptor().
  static Result<CrashPage> receive(Fd descriptor);
  CrashPage(CrashPage&& other) noexcept
      : records_{std::exchange(other.records_, nullptr)}, memory_{std::move(other.memory_)} {}
  CrashPage& operator=(CrashPage&& other) noexcept {
    std::swap(records_, other.records_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~CrashPage();

  CrashRecord& record() const { return records_->crash; }
  StackRecord& stacks() const { return records_->stacks; }
  int descriptor() const { return memory_.get(); }
  /// Closes the descriptor, after which descriptor() is -1, and keeps the mapping out of the children that are forked
  /// from now on.
  void keep_from_children();
  /// Lets the children that are forked from now on inherit the mapping.
  void give_to_children();
  /// Leaves the memory mapped until the process ends; this object then no longer unmaps it.
  void release() { records_ = nullptr; }

 private:
  struct Records {
    CrashRecord crash;
    StackRecord stacks;
  };
  CrashPage(Records* records, Fd memory) : records_{records}, memory_{std::move(memory)} {}
  Records* records_;
  Fd memory_;
};

/// The user's function that a thread runs. The pointers stay valid while the thread runs the function.
struct RunningFunction {
  const char* name = nullptr;  ///< mangled name; null if the thread runs no call
  /// Outer stack frames, beyond this address, belong to the worker and are not about the user's code. Null if unknown.
  const void* frame = nullptr;
};

/// Installs handlers that record SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and std::terminate before they end this
/// process. Signals that the program already handles or ignores are left alone. Only the first crash is recorded; other
/// threads that crash meanwhile wait for the end of the process, which comes after 2 s at most. `running` is called in
/// a signal handler of the crashing thread, so it must take no lock and no memory. A worker calls this once, when it
/// begins and no other thread runs. `record` must stay valid until the process ends.
void record_crashes(CrashRecord* record, RunningFunction (*running)());

/// Gives the calling thread a stack for signal handlers, so that its crashes are recorded even after a stack overflow.
/// The stack stays until the thread ends. Does nothing if the thread has one already, or if no memory is left.
void prepare_thread_for_crashes();

/// How describe_crash() finds names.
struct CrashReader {
  std::string (*readable)(const char* mangled);  ///< makes the name of a user's function readable
  bool with_symbols = true;
};
/// Fills `headline` (", in Model::step(int) at model.cpp:31") and `report` (several lines, cut off at the size of the
/// record), and then sets the state kDescribed. Finds the names in the files that the calling process has loaded, which
/// may take seconds or crash: the zygote calls it in a child, and without symbols in itself. Call it only when the
/// record is written, and its process has ended.
void describe_crash(CrashRecord& record, const CrashReader& reader);

}  // namespace pharos::process
