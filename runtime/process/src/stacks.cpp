#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <pharos/process/backtrace.hpp>
#include <pharos/process/stacks.hpp>

namespace pharos::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerTime = 2s;
constexpr auto kLookPause = 2ms;

// Written by answer_stack_questions(), then only read.
StackRecord* record_here = nullptr;
// The places to which leave_stack_walk() jumps, one for each entry of the record.
std::array<sigjmp_buf, StackRecord::kThreadsMax> walk_ends;

pid_t own_thread() {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

// Returns the calling thread's entry if it is in that state, otherwise null.
StackRecord::Thread* own_entry(StackRecord::State state) {
  const pid_t own = own_thread();
  for (StackRecord::Thread& thread : record_here->threads) {
    if (thread.number.load() == own && thread.state.load() == state) return &thread;
  }
  return nullptr;
}

// A separate function that is never inlined, so that the jump back cannot change the caller's local variables.
[[gnu::noinline]] void write_down(StackRecord::Thread& own, ucontext_t& context) {
  if (sigsetjmp(walk_ends[static_cast<std::size_t>(&own - record_here->threads.data())], 1) == 0) {
    own.stack.write(context, nullptr);
  }
}

void on_question(int, siginfo_t*, void* context) {
  const int error = errno;
  StackRecord::Thread* const own = own_entry(StackRecord::kAsked);
  std::uint32_t asked = StackRecord::kAsked;
  if (own != nullptr && own->state.compare_exchange_strong(asked, StackRecord::kBegun)) {
    write_down(*own, *static_cast<ucontext_t*>(context));
    own->state.store(StackRecord::kWritten);
  }
  errno = error;
}

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// A thread's state and sets of signals, read from /proc. The state is '?' if the thread has ended.
struct KernelsView {
  char state = '?';
  std::uint64_t pending = 0;  // signals that are pending for this thread
  std::uint64_t blocked = 0;
  std::uint64_t caught = 0;

  static KernelsView of(const std::string& folder) {
    KernelsView view;
    std::ifstream status{folder + "/status"};
    for (std::string line; std::getline(status, line);) {
      const std::string value = line.substr(std::min(line.size(), line.find('\t') + 1));
      if (line.starts_with("State:") && !value.empty()) view.state = value.front();
      if (line.starts_with("SigPnd:")) view.pending = std::strtoull(value.c_str(), nullptr, 16);
      if (line.starts_with("SigBlk:")) view.blocked = std::strtoull(value.c_str(), nullptr, 16);
      if (line.starts_with("SigCgt:")) view.caught = std::strtoull(value.c_str(), nullptr, 16);
    }
    return view;
  }
  static bool has(std::uint64_t set, int signal) { return (set >> (signal - 1) & 1) != 0; }
  bool stopped() const { return state == 'T' || state == 't'; }
  bool answers() const { return has(caught, stack_signal()) && !has(blocked, stack_signal()); }
};

std::string folder_of(pid_t process) {
  return "/proc/" + std::to_string(process) + "/task/";
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir(folder_of(process).c_str()), &::closedir};
  while (const dirent* const entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    if (entry->d_name[0] != '.') threads.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

/// Returns the probable reason why a thread has not answered.
std::string explain_silence(const std::string& folder) {
  const KernelsView view = KernelsView::of(folder);
  if (view.state == '?') return "it has ended";
  if (view.stopped()) return "it is stopped (by a signal, or a debugger)";
  std::string text =
      view.state == 'D' ? "it waits in the kernel for a device and cannot answer"
      : !KernelsView::has(view.caught, stack_signal())
          ? "its process does not answer: it is still starting, has executed another program, or has replaced the "
            "handler of the signal"
      : !view.answers() ? "it blocks signals"
                        : std::string{"it has not answered in time; its state is "} + view.state;
  const std::string where = text_of(folder + "/wchan");
  if (!where.empty() && where != "0") text += ", in " + where;
  return text;
}

std::string describe_thread(const StackRecord::Thread& thread, const std::string& folder) {
  const std::string name = text_of(folder + "/comm");
  std::string text = "thread " + std::to_string(thread.number.load()) + (name.empty() ? "" : " \"" + name + '"');
  if (thread.state.load() != StackRecord::kWritten) return text + ": " + explain_silence(folder) + "\n";
  std::vector<Frame> frames = thread.stack.read(true);
  if (frames.empty()) return text + ": its stack cannot be read\n";
  // The worker's own frames begin outside of the function of Pharos that calls the user's function. That function is
  // kept, because the compiler may have inlined the user's function into it.
  const auto call = std::find_if(frames.rbegin(), frames.rend(), [](const Frame& frame) {
    return !frame.of_pharos() && frame.name.starts_with("_ZN6pharos6detail");
  });
  const auto of_user = [](const Frame& frame) { return !frame.of_runtime() && frame.name != "_start"; };
  if (call == frames.rend() && std::none_of(frames.begin(), frames.end(), of_user)) {
    return text + ": runs no code of the program; it is in " + frames.front().to_string() + "\n";
  }
  if (call != frames.rend()) {
    frames.erase(call.base(), frames.end());
  } else {
    cut_to_users(frames);
  }
  text += "\n" + describe_frames(frames);
  if (thread.stack.deeper) text += "  and more\n";
  return text;
}

}  // namespace

int stack_signal() {
  return SIGRTMAX - 5;
}

void answer_stack_questions(StackRecord* record) {
  record_here = record;
  struct sigaction action {};
  if (::sigaction(stack_signal(), nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  // A first capture here loads and binds the unwinder, which must not happen in the signal handler.
  std::array<StackAddress, 4> warm;
  capture_stack(warm);
  action.sa_sigaction = &on_question;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigaction(stack_signal(), &action, nullptr);
}

void leave_stack_walk() {
  if (record_here == nullptr) return;
  const StackRecord::Thread* const own = own_entry(StackRecord::kBegun);
  if (own != nullptr) siglongjmp(walk_ends[static_cast<std::size_t>(own - record_here->threads.data())], 1);
}

void ask_for_stacks(StackRecord& record, pid_t process) {
  const std::vector<pid_t> threads = threads_of(process);
  record.more_threads = 0;
  for (StackRecord::Thread& each : record.threads) {
    each.state.store(StackRecord::kFree);
    each.number.store(0);
  }
  std::size_t next = 0;
  for (const pid_t thread : threads) {
    if (next == record.threads.size()) {
      ++record.more_threads;
      continue;
    }
    StackRecord::Thread& entry = record.threads[next++];
    entry.number.store(thread);
    entry.stack.depth = 0;
    entry.stack.modules = 0;
    entry.stack.deeper = false;
    entry.state.store(StackRecord::kAsked);
    const KernelsView view = KernelsView::of(folder_of(process) + std::to_string(thread));
    // A thread for which the signal is still pending from an earlier request will answer without another signal.
    if (view.stopped() || !view.answers() || KernelsView::has(view.pending, stack_signal())) continue;
    ::syscall(SYS_tgkill, process, thread, stack_signal());
  }
}

void describe_stacks(StackRecord& record, pid_t process) {
  const auto until = std::chrono::steady_clock::now() + kAnswerTime;
  const auto folder = [&](const StackRecord::Thread& thread) {
    return folder_of(process) + std::to_string(thread.number.load());
  };
  const auto may_answer = [&](const StackRecord::Thread& thread) {
    const std::uint32_t state = thread.state.load();
    if (state != StackRecord::kAsked && state != StackRecord::kBegun) return false;
    const KernelsView view = KernelsView::of(folder(thread));
    return view.state != '?' && !view.stopped() && view.answers();
  };
  while (std::any_of(record.threads.begin(), record.threads.end(), may_answer) &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLookPause);
  }
  std::string text;
  for (const StackRecord::Thread& thread : record.threads) {
    if (thread.number.load() != 0) text += describe_thread(thread, folder(thread));
  }
  if (record.more_threads != 0) text += "and " + std::to_string(record.more_threads) + " more threads\n";
  const std::size_t size = std::min(text.size(), record.text.size() - 1);
  std::copy_n(text.begin(), size, record.text.begin());
  record.text[size] = '\0';
}

}  // namespace pharos::process
