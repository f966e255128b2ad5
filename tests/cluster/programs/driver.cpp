// A program that tests kill: `cluster_driver quiet|load|grandchildren|forked`. It prints "ready" once its workers work;
// in the mode `load` it then prints a line for each round. After SIGTERM it returns from main.
// Status: 0 after SIGTERM, 10 if the Runtime stopped, 11 after any other exception, 12 if a result did not come in
// time, 13 if a worker died before "ready".

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

using namespace std::chrono_literals;

std::atomic<bool> told_to_end = false;

class Counter {
 public:
  int add(int amount) { return value_ += amount; }
  /// Starts a process in a session of its own, whose parent is not in the cluster. Returns its process id.
  int leave_grandchild() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      const pid_t grandchild = ::fork();
      if (grandchild != 0) {
        [[maybe_unused]] const auto n = ::write(ends[1], &grandchild, sizeof grandchild);
        ::_exit(0);
      }
      ::setsid();
      ::execl("/bin/sleep", "sleep", "1000", nullptr);
      ::_exit(127);
    }
    ::waitpid(child, nullptr, 0);
    pid_t grandchild = 0;
    [[maybe_unused]] const auto n = ::read(ends[0], &grandchild, sizeof grandchild);
    ::close(ends[0]);
    ::close(ends[1]);
    return grandchild;
  }

 private:
  int value_ = 0;
};

int plus_one(int value) {
  return value + 1;
}
int leave_grandchild_of_task() {
  return Counter{}.leave_grandchild();
}

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::in(20s));
}

void say(const std::string& line) {
  std::cout << line << std::endl;
}

void wait_until_told() {
  while (!told_to_end) ::usleep(10'000);
}

class Load {
 public:
  explicit Load(pharos::Runtime& runtime) : runtime_{runtime}, actors_(2) {}

  void run() {
    while (!told_to_end) {
      try {
        run_round();
        say("round");
      } catch (const pharos::ActorDied& e) {
        say("ActorDied: " + std::string{e.what()});
        for (auto& actor : actors_) actor.reset();
      } catch (const pharos::WorkerDied& e) {
        say("WorkerDied: " + std::string{e.what()});
      }
    }
  }

 private:
  void run_round() {
    std::vector<pharos::Ref<int>> results;
    for (auto& actor : actors_) {
      if (!actor) actor.emplace(runtime_.spawn<Counter>());
      for (int i = 0; i < 200; ++i) results.push_back(actor->call<&Counter::add>(1));
    }
    for (int i = 0; i < 100; ++i) results.push_back(runtime_.submit<&plus_one>(i));
    for (const auto& result : results) wait_for(result);
  }

  pharos::Runtime& runtime_;
  std::vector<std::optional<pharos::Actor<Counter>>> actors_;
};

void run(const std::string& mode) {
  pharos::Runtime runtime;
  const auto counter = runtime.spawn<Counter>();
  wait_for(counter.call<&Counter::add>(1));
  wait_for(runtime.submit<&plus_one>(1));
  if (mode == "grandchildren") {
    say(std::to_string(wait_for(counter.call<&Counter::leave_grandchild>())));
    say(std::to_string(wait_for(runtime.submit<&leave_grandchild_of_task>())));
  }
  if (mode == "forked") {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    say(std::to_string(child));
  }
  say("ready");
  if (mode == "load") {
    Load{runtime}.run();
  } else {
    wait_until_told();
  }
}

}  // namespace

int main(int, char** argv) {
  ::signal(SIGTERM, [](int) { told_to_end = true; });
  try {
    run(argv[1]);
    return 0;
  } catch (const pharos::RuntimeStopped& e) {
    say("RuntimeStopped: " + std::string{e.what()});
    return 10;
  } catch (const pharos::ActorDied& e) {  // Load::run() catches those of the mode `load`
    say("not ready: " + std::string{e.what()});
    return 13;
  } catch (const pharos::WorkerDied& e) {
    say("not ready: " + std::string{e.what()});
    return 13;
  } catch (const pharos::DeadlineExceeded& e) {
    say("DeadlineExceeded: " + std::string{e.what()});
    return 12;
  } catch (const std::exception& e) {
    say("unexpected: " + std::string{e.what()});
    return 11;
  }
}
