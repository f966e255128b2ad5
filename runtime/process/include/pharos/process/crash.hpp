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

/// How a worker that crashes says where. What can be done in a broken process is little, so it is: it writes down
/// addresses, in memory that it shares with its zygote. The zygote, which has the same files loaded, finds out later
/// what they mean, in a child that may take its time or fail.
namespace pharos::process {

/// What a crash leaves. Fixed sizes and no pointers: it is written by a signal handler, and read by another process.
struct CrashRecord {
  enum State : std::uint32_t { kNone, kBegun, kWritten, kDescribed };
  std::atomic<std::uint32_t> state = kNone;

  // By the process that crashes.
  std::int32_t signal = 0;
  std::int32_t code = 0;      ///< si_code
  std::uint64_t address = 0;  ///< that could not be used; of SIGSEGV and SIGBUS
  std::int32_t thread = 0;
  char function[1024] = {};       ///< mangled name of the call that the thread ran; empty: none
  char terminated_by[1024] = {};  ///< what ended in std::terminate
  WrittenStack stack;

  // By who describes it.
  char headline[2048] = {};
  char report[32 << 10] = {};
};

/// Memory for the records that a process shares with one that it starts. Owned by whoever made or received it.
class CrashPage {
 public:
  static Result<CrashPage> make();
  /// The end of one that came from another process, as descriptor() there.
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
  /// From now on only the mapping is left, and children of this process do not get it.
  void keep_from_children();
  /// Those that are forked from now on do.
  void give_to_children();
  /// It stays for as long as the process.
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

/// What the thread was at when it crashed.
struct RunningFunction {
  const char* name = nullptr;  ///< mangled; null: no call
  const void* frame =
      nullptr;  ///< stack frames beyond this one are the worker's, and say nothing about the user's code
};

/// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are written down before they end this process, and so is
/// what ends in std::terminate. A signal that the program has a handler for, or ignores, is left alone. `running` is
/// called in a signal handler. Once, when no other thread runs; `record` stays for as long as the process.
void record_crashes(CrashRecord* record, RunningFunction (*running)());

/// So that the calling thread's crashes are written down also where its stack is used up. For as long as the thread.
void prepare_thread_for_crashes();

/// How to read a record.
struct CrashReader {
  std::string (*readable)(const char* mangled);  ///< a call's name for people
  bool with_symbols = true;
};
/// Fills `headline` (", in Model::step(int) at model.cpp:31") and `report` (several lines), in this process.
void describe_crash(CrashRecord& record, const CrashReader& reader);

}  // namespace pharos::process
