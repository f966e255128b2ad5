// A program that makes calls while a test cuts networks or stops processes: `under_faults MODE FILE…`. It prints lines
// that tests look for, and "done" at its end. After an exception it prints "TYPE: message" and ends with status 1.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;
using pharos::cluster::say;

template <class T>
T wait_for(const pharos::Ref<T>& ref, std::chrono::milliseconds time = 60s) {
  return ref.get(pharos::Deadline::in(time));
}

/// Counts the calls that are repeated, missing or out of order, for each caller separately.
class Sequence {
 public:
  int take(int caller, int number) {
    if (number != ++last_[caller]) ++wrong_;
    return number;
  }
  std::size_t measure(const pharos::Bytes& bytes) { return bytes.size(); }
  int wrong() { return wrong_; }
  int process() { return ::getpid(); }

 private:
  std::map<int, int> last_;
  int wrong_ = 0;
};

/// Makes two hundred calls a second until the file exists. With every fiftieth call it makes another one, whose
/// argument is a value of `bytes` bytes in the object store. Returns "N calls, M wrong".
std::string call_until(pharos::Runtime& runtime, const pharos::Actor<Sequence>& sequence, int caller,
                       const std::string& file, std::size_t bytes) {
  std::vector<pharos::Ref<int>> results;
  std::vector<pharos::Ref<std::size_t>> sizes;
  while (!std::filesystem::exists(file)) {
    results.push_back(sequence.call<&Sequence::take>(caller, static_cast<int>(results.size()) + 1));
    if (results.size() % 50 == 0) {
      sizes.push_back(sequence.call<&Sequence::measure>(runtime.put(pharos::Bytes{std::string(bytes, 'a')})));
    }
    std::this_thread::sleep_for(5ms);  // limits the rate
  }
  int wrong = 0;
  int number = 0;
  for (const auto& result : results) wrong += wait_for(result) == ++number ? 0 : 1;
  for (const auto& size : sizes) wrong += wait_for(size) == bytes ? 0 : 1;
  return std::to_string(number + static_cast<int>(sizes.size())) + " calls, " + std::to_string(wrong) + " wrong";
}
class Writer {
 public:
  std::string write(const pharos::Actor<Sequence>& sequence, int caller, const std::string& file, std::size_t bytes) {
    pharos::Runtime runtime;
    return call_until(runtime, sequence, caller, file, bytes);
  }
};

/// The program and an actor on "c" call an actor on "b" until the file exists.
void run_steady(pharos::Runtime& runtime, const std::string& file, std::size_t bytes) {
  const auto sequence = runtime.spawn<Sequence>({.resources = {{"b", 1}}});
  const auto writer = runtime.spawn<Writer>({.resources = {{"c", 1}}});
  say("worker " + std::to_string(wait_for(sequence.call<&Sequence::process>())));
  const auto from_c = writer.call<&Writer::write>(sequence, 2, file, bytes);
  say("ready");
  say("program: " + call_until(runtime, sequence, 1, file, bytes));
  say("c: " + wait_for(from_c));
  say("out of order: " + std::to_string(wait_for(sequence.call<&Sequence::wrong>())));
}

int nap(int number) {
  std::this_thread::sleep_for(3s);
  return number;
}
/// Runs one task after the other on "c" until the file exists. The tasks take 3 s each and may not run twice.
class Taskmaster {
 public:
  std::string run(const std::string& file) {
    pharos::Runtime runtime;
    int number = 0;
    int wrong = 0;
    while (!std::filesystem::exists(file)) {
      const auto task = runtime.submit<&nap>({.resources = {{"c", 1}}}, ++number);
      wrong += wait_for(task) == number ? 0 : 1;
    }
    return std::to_string(number) + " tasks, " + std::to_string(wrong) + " wrong";
  }
};

/// Machines call each other until the file exists: the program and "c" call "h", "h" calls "b", and an actor on "h"
/// runs tasks on "c".
void run_around(pharos::Runtime& runtime, const std::string& file) {
  constexpr std::size_t kBytes = std::size_t{200} << 10;
  const auto on_h = runtime.spawn<Sequence>({.resources = {{"h", 1}}});
  const auto on_b = runtime.spawn<Sequence>({.resources = {{"b", 1}}});
  const auto writes_on_h = runtime.spawn<Writer>({.resources = {{"h", 1}}});
  const auto writes_on_c = runtime.spawn<Writer>({.resources = {{"c", 1}}});
  const auto taskmaster = runtime.spawn<Taskmaster>({.resources = {{"h", 1}}});
  const auto first = std::to_string(wait_for(on_h.call<&Sequence::process>())) + ' ' +
                     std::to_string(wait_for(on_b.call<&Sequence::process>()));
  const auto from_c = writes_on_c.call<&Writer::write>(on_h, 2, file, kBytes);
  const auto from_h = writes_on_h.call<&Writer::write>(on_b, 3, file, kBytes);
  const auto tasks = taskmaster.call<&Taskmaster::run>(file);
  say("ready");
  say("program to h: " + call_until(runtime, on_h, 1, file, kBytes));
  say("c to h: " + wait_for(from_c));
  say("h to b: " + wait_for(from_h));
  say("h on c: " + wait_for(tasks));
  const int wrong = wait_for(on_h.call<&Sequence::wrong>()) + wait_for(on_b.call<&Sequence::wrong>());
  say("out of order: " + std::to_string(wrong));
  const auto last = std::to_string(wait_for(on_h.call<&Sequence::process>())) + ' ' +
                    std::to_string(wait_for(on_b.call<&Sequence::process>()));
  say(first == last ? "the same processes" : "other processes");
}

/// Appends a line to the file for each call: "CALLER INCARNATION MILLISECONDS". The lines are in the order of the
/// calls.
class Marker {
 public:
  std::uint32_t mark(const std::string& file, const std::string& caller) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::uint32_t incarnation = pharos::context().incarnation;
    const std::string line = caller + ' ' + std::to_string(incarnation) + ' ' +
                             std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) + '\n';
    const int out = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    [[maybe_unused]] const auto n = ::write(out, line.data(), line.size());
    ::close(out);
    return incarnation;
  }
};

/// Calls the actor "moving" until the file exists, and prints each new incarnation. Ignores all errors of the calls
/// except RuntimeStopped.
void mark_until(pharos::Runtime& runtime, const std::string& sink, const std::string& caller, const std::string& file) {
  std::uint32_t newest = 0;
  while (!std::filesystem::exists(file)) {
    try {
      const auto marker = runtime.actor<Marker>("moving", "faults");
      const auto incarnation = wait_for(marker.call<&Marker::mark>(sink, caller), 500ms);
      if (incarnation > newest) say(caller + " sees incarnation " + std::to_string(newest = incarnation));
    } catch (const pharos::RuntimeStopped&) {
      throw;
    } catch (const pharos::Exception&) {
    }
    std::this_thread::sleep_for(10ms);  // limits the rate
  }
}
class Neighbour {
 public:
  void mark(const std::string& sink, const std::string& file) {
    pharos::Runtime runtime;
    mark_until(runtime, sink, "neighbour", file);
  }
};

/// Calls the actor "moving", which runs on a node with the resource "both". A second actor on that node calls it too.
void run_moving(pharos::Runtime& runtime, const std::string& file, const std::string& sink) {
  const auto moving =
      runtime.spawn<Marker>({.name = "moving", .name_space = "faults", .resources = {{"both", 1}}, .max_restarts = -1});
  wait_for(moving.call<&Marker::mark>(sink, "program"));
  const auto neighbour = runtime.spawn<Neighbour>({.resources = {{"b", 1}}});
  const auto its_end = neighbour.call<&Neighbour::mark>(sink, file);
  say("ready");
  mark_until(runtime, sink, "program", file);
}

class Counter {
 public:
  int add(int amount) { return value_ += amount; }
  std::size_t measure(const pharos::Bytes& bytes) { return bytes.size(); }
  std::string node() { return to_string(pharos::context().node); }

 private:
  int value_ = 0;
};
class Caller {
 public:
  explicit Caller(const pharos::Actor<Counter>& counter) : counter_{counter} {}
  std::string call(int milliseconds) {
    try {
      return std::to_string(wait_for(counter_.call<&Counter::add>(1), std::chrono::milliseconds{milliseconds}));
    } catch (const std::exception& e) {
      return e.what();
    }
  }
  pharos::Bytes make() { return pharos::Bytes{std::string(std::size_t{1} << 20, 'a')}; }
  std::string node() { return to_string(pharos::context().node); }
  std::string wait_however_long() {
    try {
      return std::to_string(counter_.call<&Counter::add>(1).get());
    } catch (const std::exception& e) {
      return e.what();
    }
  }

 private:
  pharos::Actor<Counter> counter_;
};

/// An actor on "b" calls one on "c", and "c" reads a value of "b". The test cuts the two nodes off from each other
/// before it makes the file `cut`, and connects them again before it makes the file `healed`.
void run_between(pharos::Runtime& runtime, const std::string& cut, const std::string& healed) {
  const auto wait_until = [](const std::string& file) {
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(10ms);
  };
  const auto counter = runtime.spawn<Counter>({.resources = {{"c", 1}}});
  const auto caller = runtime.spawn<Caller>({.resources = {{"b", 1}}}, counter);
  say("before: " + wait_for(caller.call<&Caller::call>(10'000)));
  const auto value = caller.call<&Caller::make>();
  pharos::wait(std::vector{value});
  say("b is " + wait_for(caller.call<&Caller::node>()));
  say("c is " + wait_for(counter.call<&Counter::node>()));
  say("ready");
  wait_until(cut);
  say("with a deadline: " + wait_for(caller.call<&Caller::call>(2000)));
  const auto without = caller.call<&Caller::wait_however_long>();
  try {
    say("value: " + std::to_string(wait_for(counter.call<&Counter::measure>(value))));
  } catch (const std::exception& e) {
    say(std::string{"value: "} + e.what());
  }
  say("without one: " + wait_for(without));
  say("program to c: " + std::to_string(wait_for(counter.call<&Counter::add>(100))));
  say("heal");
  wait_until(healed);
  say("afterwards: " + wait_for(caller.call<&Caller::call>(20'000)));
  say("value afterwards: " + std::to_string(wait_for(counter.call<&Counter::measure>(value))));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argv[1];
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    if (mode == "steady") run_steady(runtime, argv[2], argc > 3 ? std::stoul(argv[3]) : std::size_t{1} << 20);
    if (mode == "around") run_around(runtime, argv[2]);
    if (mode == "moving") run_moving(runtime, argv[2], argv[3]);
    if (mode == "between") run_between(runtime, argv[2], argv[3]);
  });
}
