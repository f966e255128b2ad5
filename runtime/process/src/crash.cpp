#include <cxxabi.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
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
constexpr unsigned kSecondsMax = 2;  // for a stack that is so broken that walking it does not end
constexpr std::size_t kStackBytes = 64 << 10;

// Written by record_crashes(), then only read.
CrashRecord* record_here = nullptr;
RunningFunction (*running_here)() = nullptr;
std::terminate_handler terminate_before = nullptr;
// What kills, once it is clear that nothing more will be written down.
std::atomic<int> cause = 0;

pid_t own_thread() {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

template <std::size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::size_t i = 0;
  for (; from != nullptr && i + 1 < N && from[i] != '\0'; ++i) to[i] = from[i];
  to[i] = '\0';
}

std::uint8_t module_index(CrashRecord& record, const char* name) {
  if (name == nullptr) return CrashRecord::kNoModule;
  for (std::uint32_t i = 0; i < record.modules; ++i) {
    if (std::strncmp(record.module_names[i], name, sizeof record.module_names[i] - 1) == 0) {
      return static_cast<std::uint8_t>(i);
    }
  }
  if (record.modules == CrashRecord::kModulesMax) return CrashRecord::kNoModule;
  copy_text(record.module_names[record.modules], name);
  return static_cast<std::uint8_t>(record.modules++);
}

#if defined(__x86_64__)
// A call to where there is no code has nothing to unwind from; what called it has, and its address lies on the stack.
// True when the context was changed, to be changed back.
bool step_out_of_nowhere(ucontext_t& context) {
  auto& registers = context.uc_mcontext.gregs;
  if (find_module(static_cast<std::uintptr_t>(registers[REG_RIP])).module != nullptr) return false;
  std::uintptr_t back = 0;
  iovec to{&back, sizeof back};
  iovec from{reinterpret_cast<void*>(registers[REG_RSP]), sizeof back};  // NOLINT(performance-no-int-to-ptr)
  // The kernel looks at it, and does not crash.
  if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != sizeof back) return false;
  if (find_module(back).module == nullptr) return false;
  registers[REG_RIP] = static_cast<greg_t>(back);
  registers[REG_RSP] += 8;
  return true;
}
std::uintptr_t interrupted_code(const ucontext_t& context) {
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}
#else
bool step_out_of_nowhere(ucontext_t&) {
  return false;
}
std::uintptr_t interrupted_code(const ucontext_t&) {
  return 0;
}
#endif

void write_stack(CrashRecord& record, ucontext_t& context, const void* outermost) {
  const ucontext_t before = context;
  const bool nowhere = step_out_of_nowhere(context);
  const std::uintptr_t interrupted = interrupted_code(context);
  std::array<StackAddress, CrashRecord::kFramesMax + 16> stack;
  const std::size_t count = capture_stack(stack);
  if (nowhere) context = before;
  // The handler's own frames come first.
  std::size_t first = 0;
  while (first < count && stack[first].code != interrupted) ++first;
  if (first == count) first = 0;
  for (std::size_t i = first; i < count; ++i) {
    if (outermost != nullptr && stack[i].end > reinterpret_cast<std::uintptr_t>(outermost)) return;
    if (record.depth == CrashRecord::kFramesMax) {
      record.deeper = true;
      return;
    }
    const ModulePlace place = find_module(stack[i].code);
    record.frames[record.depth++] = {place.offset, module_index(record, place.module)};
  }
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

// What walks the stack may itself not end.
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
    write_stack(record, *static_cast<ucontext_t*>(context), running.frame);
    record.state.store(CrashRecord::kWritten);
  } else if (record.thread != own_thread()) {
    // Another thread's crash is being written down, and ends the process.
    for (;;) ::pause();
  }
  ::signal(signal, SIG_DFL);
  // A fault comes again on return, and kills with all that the kernel knows about it; what was sent must be sent again.
  if (about->si_code <= 0) ::syscall(SYS_tgkill, ::getpid(), own_thread(), signal);
}

[[noreturn]] void on_terminate() {
  static std::atomic<bool> entered = false;  // what() may end here again
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type != nullptr && !entered.exchange(true)) {
    std::string text = demangled(type->name());
    try {
      throw;
    } catch (const std::exception& e) {
      text.append(": ").append(e.what());
    } catch (...) {
      // Its type is all that can be said about it.
    }
    copy_text(record_here->terminated_by, text.c_str());
  }
  terminate_before();
  std::abort();
}

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
  std::vector<Frame> frames;
  for (std::uint32_t i = 0; i < record.depth; ++i) {
    const auto& place = record.frames[i];
    const ModulePlace where{place.module < record.modules ? record.module_names[place.module] : nullptr, place.offset};
    if (!with_symbols) {
      frames.push_back(without_symbol(where));
      continue;
    }
    for (Frame& frame : symbolize(where)) frames.push_back(std::move(frame));
  }
  const auto of_user = [](const Frame& frame) { return !frame.of_runtime(); };
  const auto innermost = std::find_if(frames.begin(), frames.end(), of_user);
  if (innermost == frames.end()) {
    // The compiler may have put the user's function into what calls it.
    const auto caller = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
      return !frame.of_pharos() && frame.name.starts_with("_ZN6pharos6detail");
    });
    if (caller != frames.end()) frames.erase(std::next(caller), frames.end());
    return frames;
  }
  // A destructor has no call that would say where the worker begins.
  frames.erase(std::find_if(innermost, frames.end(), [](const Frame& frame) { return frame.of_pharos(); }),
               frames.end());
  // What Pharos put between the worker and the user's function; and how abort() goes about it.
  frames.erase(std::find_if(frames.rbegin(), frames.rend(), of_user).base(), frames.end());
  if (record.signal == SIGABRT) frames.erase(frames.begin(), innermost);
  return frames;
}

std::string describe_frames(const std::vector<Frame>& frames) {
  std::string text;
  for (std::size_t i = 0; i < frames.size();) {
    const std::string line = frames[i].to_string();
    const std::size_t first = i;
    while (i < frames.size() && frames[i].to_string() == line) ++i;
    text += "  #" + std::to_string(first) + " " + line;
    if (i - first > 1) text += "  [" + std::to_string(i - first) + " times]";
    text += '\n';
  }
  return text;
}

}  // namespace

Result<CrashPage> CrashPage::make() {
  Fd memory{::memfd_create("pharos-crash", MFD_CLOEXEC)};
  if (!memory || ::ftruncate(memory.get(), sizeof(CrashRecord)) != 0) {
    return Error::from_errno("making memory for crash reports", errno);
  }
  PHAROS_TRY(CrashPage page, receive(std::move(memory)));
  new (page.record_) CrashRecord;
  return page;
}

Result<CrashPage> CrashPage::receive(Fd descriptor) {
  void* const memory = ::mmap(nullptr, sizeof(CrashRecord), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) return Error::from_errno("mapping memory for crash reports", errno);
  return CrashPage{static_cast<CrashRecord*>(memory), std::move(descriptor)};
}

CrashPage::~CrashPage() {
  if (record_ != nullptr) ::munmap(record_, sizeof(CrashRecord));
}

void CrashPage::keep_from_children() {
  memory_.reset();
  ::madvise(record_, sizeof(CrashRecord), MADV_DONTFORK);
}

void CrashPage::give_to_children() {
  ::madvise(record_, sizeof(CrashRecord), MADV_DOFORK);
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
  stack_t stack{};
  // A sanitizer may have brought one.
  if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  void* const memory = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;  // then only a used-up stack leaves no report
  stack = {.ss_sp = memory, .ss_flags = 0, .ss_size = kStackBytes};
  ::sigaltstack(&stack, nullptr);
}

void describe_crash(CrashRecord& record, const CrashReader& reader) {
  const std::vector<Frame> frames = frames_of(record, reader.with_symbols);
  std::string report = "*** " + describe_signal(record) + ", in thread " + std::to_string(record.thread);
  report += record.function[0] == '\0' ? ", outside of calls" : ", in a call of " + reader.readable(record.function);
  report += "\n" + describe_frames(frames);
  if (record.deeper) report += "  and more\n";
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
