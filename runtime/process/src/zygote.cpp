#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>

#include <pharos/base/log.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/build_id.hpp>
#include <pharos/process/crash.hpp>
#include <pharos/process/inherited.hpp>
#include <pharos/process/limits.hpp>
#include <pharos/process/spawn.hpp>
#include <pharos/process/zygote.hpp>

namespace pharos::process {
namespace {

using namespace std::chrono_literals;

constexpr auto kHandshakeTime = 10s;
constexpr unsigned kDescribeSeconds = 20;  // enough to read the symbols of a large program

unsigned thread_count() {
  struct stat status {};
  // The folder has one link for each thread, and the two links that every folder has.
  return ::stat("/proc/self/task", &status) == 0 ? static_cast<unsigned>(status.st_nlink) - 2 : 0;
}

std::string thread_names() {
  std::string names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc/self/task"), &::closedir};
  while (const dirent* const entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    if (entry->d_name[0] == '.' || std::to_string(::getpid()) == entry->d_name) continue;
    const std::string path = std::string{"/proc/self/task/"} + entry->d_name + "/comm";
    const std::unique_ptr<FILE, int (*)(FILE*)> file{std::fopen(path.c_str(), "re"), &std::fclose};
    char name[32] = {};
    if (file == nullptr || std::fgets(name, sizeof name, file.get()) == nullptr) continue;
    std::string_view text = name;
    if (text.ends_with('\n')) text.remove_suffix(1);
    names.append(names.empty() ? "" : ", ").append(text);
  }
  return names;
}

std::string open_gpu() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc/self/fd"), &::closedir};
  while (const dirent* const entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    char target[128] = {};
    const std::string path = std::string{"/proc/self/fd/"} + entry->d_name;
    if (::readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
    if (std::string_view{target}.starts_with("/dev/nvidia")) return target;
  }
  return {};
}

/// Returns the reason why a fork is not safe; empty if a fork is safe.
std::string why_not_fork() {
  if (const std::string gpu = open_gpu(); !gpu.empty()) {
    return "a static initialiser of the program opened " + gpu + ", and a GPU does not survive a fork";
  }
  if (thread_count() > 1) {
    return "a static initialiser of the program started a thread (" + thread_names() +
           "), and threads do not survive a fork";
  }
  return {};
}

/// Returns the open descriptors in ascending order, without the descriptor that reads the list.
std::vector<unsigned> open_descriptors() {
  std::vector<unsigned> open;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc/self/fd"), &::closedir};
  while (const dirent* const entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const auto number = static_cast<unsigned>(std::strtoul(entry->d_name, nullptr, 10));
    if (static_cast<int>(number) != ::dirfd(folder.get())) open.push_back(number);
  }
  std::sort(open.begin(), open.end());
  return open;
}

/// Closes all descriptors that are not in `kept`, which must be in ascending order.
void close_all_but(const std::vector<unsigned>& kept) {
  unsigned next = 0;
  for (const unsigned descriptor : kept) {
    if (descriptor > next) ::close_range(next, descriptor - 1, 0);
    next = descriptor + 1;
  }
  ::close_range(next, ~0U, 0);
}

/// Returns "NAME" of "NAME=value".
std::string name_of_variable(const std::string& variable) {
  return variable.substr(0, variable.find('='));
}

struct ForkRequest {
  WorkerId worker;
  std::vector<std::string> variables;
  std::vector<Fd> descriptors;  // control socket, standard output, standard error
};

class Zygote final : public net::Peer::Owner {
 public:
  Zygote(Preamble preamble, const ZygoteProgram& program) : preamble_{preamble}, program_{program} {}

  std::variant<ZygoteEnded, BecomeWorker> run(Fd socket) {
    const auto deadline = async::Deadline::after(kHandshakeTime, reactor_.now());
    if (auto node = net::initiate(socket.get(), preamble_.key, {net::Role::kZygote, preamble_.id}, deadline); !node) {
      log(LogLevel::kError, "the node does not answer", {kv("error", node.error())});
      return ZygoteEnded{1};
    }
    cannot_fork_ = why_not_fork();
    std::erase(programs_own_, static_cast<unsigned>(socket.get()));
    watch_children();
    const auto link = net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kAccepted);
    node_ = net::Peer::make(reactor_, link, *this);
    link->start(node_);
    node_->send(wire::ZygoteReady{own_build_id(), program_.functions, cannot_fork_});
    while (!ended_) {
      reactor_.poll_one(async::Deadline::never());
      while (!requests_.empty()) {
        ForkRequest request = std::move(requests_.front());
        requests_.pop_front();
        auto crash = CrashPage::make();
        if (!crash) {
          cannot_start(request.worker, errno);
        } else if (!cannot_fork_.empty()) {
          execute_worker(std::move(request), *std::move(crash));
        } else if (auto worker = fork_worker(std::move(request), *std::move(crash))) {
          return *std::move(worker);
        }
      }
    }
    return ZygoteEnded{0};
  }

 private:
  struct ChildWatcher : net::Reactor::Watcher {
    explicit ChildWatcher(Zygote& to) : zygote{to} {}
    void on_ready(std::uint32_t) override { zygote.reap(); }
    Zygote& zygote;
  };

  void watch_children() {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    child_event_ = Fd{::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)};
    PHAROS_CHECK(child_event_, errno);
    reactor_.watch(child_event_.get(), EPOLLIN, std::make_shared<ChildWatcher>(*this));
  }

  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) override {
    if (const auto* const read = std::get_if<wire::ReadStacks>(&parcel.message); read != nullptr && request) {
      return read_stacks(read->worker, *request);
    }
    if (const auto* const fork = std::get_if<wire::ForkWorker>(&parcel.message)) {
      requests_.push_back({fork->worker, fork->variables, std::move(parcel.descriptors)});
    }
  }
  void on_peer_closed(net::Peer&, const Error&) override { ended_ = true; }

  /// Forks a worker. Returns nullopt in the zygote, and a value in the child.
  std::optional<BecomeWorker> fork_worker(ForkRequest request, CrashPage crash) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      reset_signals();
      ::setpgid(0, 0);
      for (const std::string& variable : request.variables) {
        ::setenv(name_of_variable(variable).c_str(), variable.c_str() + variable.find('=') + 1, 1);
      }
      ::dup2(request.descriptors[1].get(), STDOUT_FILENO);
      ::dup2(request.descriptors[2].get(), STDERR_FILENO);
      // The zygote's own descriptors are closed. Above all, the sockets of the next workers must be: if this worker
      // kept copies, those sockets would not close when their workers end.
      Fd control = std::move(request.descriptors[0]);
      request.descriptors.clear();
      const auto number = static_cast<unsigned>(control.get());
      programs_own_.insert(std::upper_bound(programs_own_.begin(), programs_own_.end(), number), number);
      close_all_but(programs_own_);
      return BecomeWorker{std::move(control), std::move(crash)};
    }
    report_start(request.worker, pid, std::move(crash));
    return std::nullopt;
  }

  void execute_worker(ForkRequest request, CrashPage crash) {
    constexpr int kControl = 3;
    constexpr int kCrash = 4;
    Program program{.path = "/proc/self/exe",
                    .executable = {},
                    .arguments = {preamble_.name},
                    .environment = own_environment(),
                    .moved = {{request.descriptors[0].get(), kControl},
                              {crash.descriptor(), kCrash},
                              {request.descriptors[1].get(), STDOUT_FILENO},
                              {request.descriptors[2].get(), STDERR_FILENO}},
                    .folder = {}};
    for (const std::string& variable : request.variables) {
      std::erase_if(program.environment,
                    [&](const std::string& each) { return name_of_variable(each) == name_of_variable(variable); });
      program.environment.push_back(variable);
    }
    program.environment.push_back(role_variable(InheritedRole::kWorker, kControl, kCrash));
    const auto pid = spawn(program);
    if (!pid) return cannot_start(request.worker, errno);
    report_start(request.worker, *pid, std::move(crash));
  }

  /// Opens a child, for pidfd_send_signal(). A child that has not been reaped keeps its process id, so this is the
  /// right process. Valgrind does not implement pidfd_open(); the folder in /proc does as well.
  static Fd open_process(pid_t pid) {
    Fd opened{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
    if (!opened && errno == ENOSYS) {
      opened = Fd{::open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    }
    return opened;
  }

  void cannot_start(WorkerId worker, int why) {
    log(LogLevel::kError, "cannot start a worker", {kv("errno", why)});
    node_->send(wire::WorkerReaped{worker, -why, false});
  }

  void report_start(WorkerId worker, pid_t pid, CrashPage crash) {
    if (pid < 0) return cannot_start(worker, errno);
    Fd handle = open_process(pid);
    if (!handle) {
      const int why = errno;
      ::kill(pid, SIGKILL);  // the node would never hear of this process
      return cannot_start(worker, why);
    }
    crash.keep_from_children();
    workers_.insert_or_assign(pid, Child{worker, std::move(crash)});
    std::vector<Fd> descriptors;
    descriptors.push_back(std::move(handle));
    node_->send(wire::WorkerForked{worker, pid}, std::move(descriptors));
  }

  void reap() {
    signalfd_siginfo ignored;
    while (::read(child_event_.get(), &ignored, sizeof ignored) > 0) {
    }
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return;
      if (auto described = describers_.extract(pid)) report_crash(std::move(described.mapped()));
      if (auto readers = stack_readers_.extract(pid)) report_stacks(readers.mapped());
      auto worker = workers_.extract(pid);
      if (!worker) continue;
      const bool crashed = worker.mapped().crash.record().state.load() == CrashRecord::kWritten;
      node_->send(wire::WorkerReaped{worker.mapped().worker, status, crashed});
      if (crashed) describe_later(std::move(worker.mapped()));
    }
  }

  struct Child {
    WorkerId worker;
    CrashPage crash;
  };

  // A child describes the crash. Reading the symbols of a large program takes time, and needs memory that all later
  // workers would inherit from the zygote.
  void describe_later(Child crashed) {
    crashed.crash.give_to_children();
    const pid_t pid = ::fork();
    if (pid < 0) return report_crash(std::move(crashed));
    if (pid != 0) {
      describers_.insert_or_assign(pid, std::move(crashed));
      return;
    }
    reset_signals();
    ::prctl(PR_SET_NAME, "pharos-crash");
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    ::alarm(kDescribeSeconds);
    describe_crash(crashed.crash.record(), {program_.readable, true});
    ::_exit(0);
  }

  void report_crash(Child crashed) {
    CrashRecord& record = crashed.crash.record();
    // The child that was to find the names has failed, so the report has offsets instead.
    if (record.state.load() != CrashRecord::kDescribed) describe_crash(record, {program_.readable, false});
    node_->send(wire::WorkerCrashed{crashed.worker, record.headline, record.report});
  }

  // The zygote has not reaped the worker, so its process id is valid. As with a crash, a child reads the answers.
  void read_stacks(WorkerId worker, std::uint64_t request) {
    const auto asked = std::find_if(stack_readers_.begin(), stack_readers_.end(),
                                    [&](const auto& each) { return each.second.worker == worker; });
    if (asked != stack_readers_.end()) return asked->second.requests.push_back(request);
    const auto found =
        std::find_if(workers_.begin(), workers_.end(), [&](const auto& each) { return each.second.worker == worker; });
    if (found == workers_.end()) return refuse_stacks(request);
    const pid_t process = found->first;
    CrashPage& page = found->second.crash;
    ask_for_stacks(page.stacks(), process);
    page.stacks().text[0] = '\0';
    page.give_to_children();
    const pid_t pid = ::fork();
    if (pid == 0) {
      reset_signals();
      ::prctl(PR_SET_NAME, "pharos-stacks");
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close_range(STDERR_FILENO + 1, ~0U, 0);
      ::alarm(kDescribeSeconds);
      describe_stacks(page.stacks(), process);
      ::_exit(0);
    }
    page.keep_from_children();
    if (pid < 0) return refuse_stacks(request);
    stack_readers_.insert_or_assign(pid, StackReader{worker, {request}});
  }

  struct StackReader {
    WorkerId worker;
    std::vector<std::uint64_t> requests;
  };

  void report_stacks(const StackReader& reader) {
    const auto found = std::find_if(workers_.begin(), workers_.end(),
                                    [&](const auto& each) { return each.second.worker == reader.worker; });
    for (const std::uint64_t request : reader.requests) {
      if (found == workers_.end()) {
        refuse_stacks(request);
      } else {
        node_->respond(request, wire::Stacks{found->second.crash.stacks().text.data()});
      }
    }
  }

  void refuse_stacks(std::uint64_t request) {
    node_->respond(request, Error{ErrorCode::kUnavailable, "the process has ended, or its stacks cannot be read now"});
  }

  Preamble preamble_;
  ZygoteProgram program_;
  std::string cannot_fork_;
  // The descriptors that forked workers keep: those open before the zygote opens its own, in ascending order.
  std::vector<unsigned> programs_own_ = open_descriptors();
  net::Reactor reactor_;
  Fd child_event_;
  std::shared_ptr<net::Peer> node_;
  std::deque<ForkRequest> requests_;
  std::unordered_map<pid_t, Child> workers_;
  std::unordered_map<pid_t, Child> describers_;
  std::unordered_map<pid_t, StackReader> stack_readers_;
  bool ended_ = false;
};

}  // namespace

std::variant<ZygoteEnded, BecomeWorker> run_zygote(Fd socket, const ZygoteProgram& program) {
  const auto deadline = async::Deadline::after(kHandshakeTime, std::chrono::steady_clock::now());
  const auto preamble = receive_preamble(socket.get(), deadline);
  if (!preamble) return ZygoteEnded{1};
  ::prctl(PR_SET_NAME, "pharos-zygote");
  // Never destroyed: in a forked worker its members belong to the zygote, and in the zygote no cleanup is needed at the
  // end.
  static auto* const zygote = new Zygote{*preamble, program};
  return zygote->run(std::move(socket));
}

}  // namespace pharos::process
