#include <cxxabi.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <pharos/base/demangle.hpp>
#include <pharos/process/backtrace.hpp>
#include <pharos/process/crash.hpp>

namespace pharos::process {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr unsigned kSecondsMax = 2;  // time limit, because the walk along a broken stack may never end
constexpr std::size_t kStackBytes = 64 << 10;

// Written by record_crashes(), then only read.
CrashRecord* record_here = nullptr;
RunningFunction (*running_here)() = nullptr;
std::terminate_handler terminate_before = nullptr;
// The signal that ends the process when the time limit has passed.
std::atomic<int> cause = 0;

pid_t own_thread() {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

void die_of(int signal) {
  ::signal(signal, SIG_DFL);
  ::syscall(SYS_tgkill, ::getpid(), own_thread(), signal);
}

void give_up(int) {
  die_of(cause.load());
  sigset_t all;
  ::sigfillset(&all);
  ::sigdelset(&all, cause.load());
  ::sigsuspend(&all);
}

// Ends the process with `signal` after kSecondsMax, in case the walk along the stack does not end.
void limit_time(int signal) {
  cause.store(signal);
  struct sigaction late {};
  late.sa_handler = &give_up;
  late.sa_flags = SA_ONSTACK;
  ::sigaction(SIGALRM, &late, nullptr);
  sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(kSecondsMax);
}

void on_crash(int signal, siginfo_t* about, void* context) {
  leave_stack_walk();
  CrashRecord& record = *record_here;
  std::uint32_t none = CrashRecord::kNone;
  if (record.state.compare_exchange_strong(none, CrashRecord::kBegun)) {
    limit_time(signal);
    record.signal = signal;
    record.code = about->si_code;
    record.address = reinterpret_cast<std::uintptr_t>(about->si_addr);
    record.thread = own_thread();
    const RunningFunction running = running_here();
    copy_text(record.function, running.name);
    // Before the walk along the stack, which may end this process: then the rest of the record makes a report, too.
    record.state.store(CrashRecord::kWritten);
    record.stack.write(*static_cast<ucontext_t*>(context), running.frame);
  } else if (record.thread != own_thread()) {
    // The crash of another thread is being recorded, and will end the process.
    for (;;) ::pause();
  }
  ::signal(signal, SIG_DFL);
  // A fault happens again when this handler returns, and then ends the process with the kernel's full information. A
  // signal that was sent must be sent again.
  if (about->si_code <= 0) ::syscall(SYS_tgkill, ::getpid(), own_thread(), signal);
}

[[noreturn]] void on_terminate() {
  static std::atomic<bool> entered = false;  // what() may itself call std::terminate
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type != nullptr && !entered.exchange(true)) {
    std::string text = demangled(type->name());
    try {
      throw;
    } catch (const std::exception& e) {
      text.append(": ").append(e.what());
    } catch (...) {
      // Only the type of the exception is known.
    }
    copy_text(record_here->terminated_by, text.c_str());
  }
  terminate_before();
  std::abort();
}

/// The stack on which the signal handlers of one thread run. It lasts until the thread ends.
class SignalStack {
 public:
  SignalStack() = default;
  SignalStack(SignalStack&&) = delete;
  ~SignalStack() {
    if (memory_ == MAP_FAILED) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    ::sigaltstack(&none, nullptr);
    ::munmap(memory_, kStackBytes);
  }

  void provide() {
    stack_t stack{};
    // A sanitizer may have set a signal stack already.
    if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
    memory_ = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) return;  // only stack overflows then leave no report
    stack = {.ss_sp = memory_, .ss_flags = 0, .ss_size = kStackBytes};
    ::sigaltstack(&stack, nullptr);
  }

 private:
  void* memory_ = MAP_FAILED;
};

std::string describe_signal(const CrashRecord& record) {
  const char* const name = ::sigabbrev_np(record.signal);
  std::string text = name == nullptr ? "signal " + std::to_string(record.signal) : std::string{"SIG"} + name;
  if (record.terminated_by[0] != '\0') return text + ": std::terminate after throwing " + record.terminated_by;
  if ((record.signal != SIGSEGV && record.signal != SIGBUS) || record.code <= 0) return text;
  char address[32];
  std::snprintf(address, sizeof address, " at address %#zx", static_cast<std::size_t>(record.address));
  return text + address;
}

std::vector<Frame> frames_of(const CrashRecord& record, bool with_symbols) {
  std::vector<Frame> frames = record.stack.read(with_symbols);
  cut_to_users(frames);
  // The innermost frames of a SIGABRT belong to abort() itself and are left out.
  const auto of_user = [](const Frame& frame) { return !frame.of_runtime(); };
  const auto innermost = std::find_if(frames.begin(), frames.end(), of_user);
  if (record.signal == SIGABRT && innermost != frames.end()) frames.erase(frames.begin(), innermost);
  return frames;
}

}  // namespace

Result<CrashPage> CrashPage::make() {
  Fd memory{::memfd_create("pharos-crash", MFD_CLOEXEC)};
  if (!memory || ::ftruncate(memory.get(), sizeof(Records)) != 0) {
    return Error::from_errno("making memory for crash reports", errno);
  }
  PHAROS_TRY(CrashPage page, receive(std::move(memory)));
  // New memory is zero, which is the initial state of the records. So it is not written, and takes no pages yet.
  return page;
}

Result<CrashPage> CrashPage::receive(Fd descriptor) {
  void* const memory = ::mmap(nullptr, sizeof(Records), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) return Error::from_errno("mapping memory for crash reports", errno);
  return CrashPage{static_cast<Records*>(memory), std::move(descriptor)};
}

CrashPage::~CrashPage() {
  if (records_ != nullptr) ::munmap(records_, sizeof(Records));
}

void CrashPage::keep_from_children() {
  memory_.reset();
  ::madvise(records_, sizeof(Records), MADV_DONTFORK);
}

void CrashPage::give_to_children() {
  ::madvise(records_, sizeof(Records), MADV_DOFORK);
}

void record_crashes(CrashRecord* record, RunningFunction (*running)()) {
  record_here = record;
  running_here = running;
  terminate_before = std::set_terminate(&on_terminate);
  for (const int signal : kSignals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_sigaction = &on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(signal, &action, nullptr);
  }
}

void prepare_thread_for_crashes() {
  static thread_local SignalStack stack;
  stack.provide();
}

void describe_crash(CrashRecord& record, const CrashReader& reader) {
  const std::vector<Frame> frames = frames_of(record, reader.with_symbols);
  std::string report = "*** " + describe_signal(record) + ", in thread " + std::to_string(record.thread);
  report += record.function[0] == '\0' ? ", outside of calls" : ", in a call of " + reader.readable(record.function);
  report += "\n" + (frames.empty() ? std::string{"  no frame of its stack could be read\n"} : describe_frames(frames));
  if (record.stack.deeper) report += "  and more\n";
  std::string headline = record.terminated_by[0] == '\0' ? "" : std::string{", after throwing "} + record.terminated_by;
  const auto user = std::find_if(frames.begin(), frames.end(), [](const Frame& each) { return !each.of_runtime(); });
  if (user != frames.end()) {
    headline += ", in " + user->to_string();
  } else if (record.function[0] != '\0') {
    headline += ", in a call of " + reader.readable(record.function);
  }
  copy_text(record.headline, headline.c_str());
  copy_text(record.report, report.c_str());
  record.state.store(CrashRecord::kDescribed);
}

}  // namespace pharos::process
