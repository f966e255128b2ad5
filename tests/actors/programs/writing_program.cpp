// A program whose workers write to their standard streams: `writing_program
// few|many|long|alike|exit|numbers|last_words|flood|unread`.

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

constexpr const char* kDots = "............................................................";

// Resident memory of a process, in kilobytes.
long resident_kilobytes(int process) {
  std::ifstream status{"/proc/" + std::to_string(process) + "/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  }
  return 0;
}

class Writer {
 public:
  void write_few() {
    std::cout << "one\ntwo\n";
    std::printf("three\n");
    std::fprintf(stderr, "four\n");
    std::cout << "no line's end";
  }
  /// `lines` lines of 100 bytes, numbered.
  void write_many(int lines) {
    for (int i = 0; i < lines; ++i) std::printf("%08d %.*s\n", i, 90, std::string(90, '.').c_str());
  }
  void write_line(const std::string& text) { std::cout << text << std::endl; }
  void write_and_die(const std::string& text) {
    std::cout << text << std::endl;
    ::_exit(3);
  }
  /// Writes until its process is killed.
  void write_for_ever() {
    for (std::uint64_t i = 0;; ++i) std::printf("flood %020llu %.*s\n", static_cast<unsigned long long>(i), 60, kDots);
  }
  int process() { return ::getpid(); }
  void stay() {
    while (!pharos::cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  void write_long() { std::cout << std::string(300'000, 'l') << "\nshort\n"; }
};

// One actor floods its output. Prints how many calls of another actor are answered meanwhile, and how much the memory
// of this process has grown.
void flood(pharos::Runtime& runtime, const pharos::Actor<Writer>& writer) {
  const auto other = runtime.spawn<Writer>();
  other.call<&Writer::process>().get();
  const long before = resident_kilobytes(::getpid());
  const auto flood = writer.call<&Writer::write_for_ever>();
  const auto begin = std::chrono::steady_clock::now();
  int calls = 0;
  for (; std::chrono::steady_clock::now() - begin < std::chrono::seconds{2}; ++calls) {
    other.call<&Writer::process>().get();
  }
  std::cerr << "calls " << calls << '\n';
  std::cerr << "grown by " << resident_kilobytes(::getpid()) - before << " KiB\n";
  runtime.kill(writer);
}

int own_process() {
  return ::getpid();
}

bool is_full(int pipe) {
  pollfd room{.fd = pipe, .events = POLLOUT, .revents = 0};
  return ::poll(&room, 1, 0) == 0;
}

// While nobody reads standard output, prints on standard error that other calls go on, and that the writer waits.
void go_on_unread(pharos::Runtime& runtime, const pharos::Actor<Writer>& writer) {
  using namespace std::chrono_literals;
  const auto other = runtime.spawn<Writer>();
  other.call<&Writer::process>().get();
  const long before = resident_kilobytes(::getpid());
  const auto written = writer.call<&Writer::write_many>(100'000);
  while (!is_full(STDOUT_FILENO)) std::this_thread::sleep_for(1ms);
  const auto end = std::chrono::steady_clock::now() + 2s;
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
    other.call<&Writer::process>().get(pharos::Deadline::in(10s));
    runtime.submit<&own_process>().get(pharos::Deadline::in(10s));
    const auto late = other.call<&Writer::stay>(pharos::CallOptions{.deadline = pharos::Deadline::in(20ms)});
    const auto said = late.try_get(pharos::Deadline::in(10s));
    if (said || said.error().code() != pharos::ErrorCode::kDeadlineExceeded) std::cerr << "no deadline\n";
    if (i < 5) runtime.spawn<Writer>().call<&Writer::process>().get(pharos::Deadline::in(10s));
  }
  std::cerr << (written.ready() ? "the writer too" : "the writer waits") << '\n';
  std::cerr << "grown by " << resident_kilobytes(::getpid()) - before << " KiB\n";
  std::cerr << "others went on" << std::endl;
  written.get();
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  {
    pharos::Runtime runtime;
    const auto writer = runtime.spawn<Writer>(pharos::ActorOptions{.name = "scribe"});
    if (mode == "few") writer.call<&Writer::write_few>().get();
    if (mode == "many") writer.call<&Writer::write_many>(100'000).get();
    if (mode == "unwaited") [[maybe_unused]]
      const auto dropped = writer.call<&Writer::write_many>(100'000);
    if (mode == "alike" || mode == "exit" || mode == "numbers") {
      std::vector<pharos::Actor<Writer>> writers;
      for (int i = 0; i < 5; ++i)
        writers.push_back(runtime.spawn<Writer>(pharos::ActorOptions{.name = "rank" + std::to_string(i)}));
      for (const auto& each : writers)
        each.call<&Writer::write_line>(mode == "numbers" ? "0.25" : "all the same").get();
      if (mode == "exit") std::exit(0);
    }
    if (mode == "last_words") {
      const auto said = writer.call<&Writer::write_and_die>("my last words");
      std::cout << said.try_get().ok() << std::endl;
    }
    if (mode == "unread") go_on_unread(runtime, writer);
    if (mode == "flood") flood(runtime, writer);
    if (mode == "long") writer.call<&Writer::write_long>().get();
  }
  std::cout << "the Runtime has ended" << std::endl;
}
