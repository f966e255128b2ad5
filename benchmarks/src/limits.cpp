// Measures the limits of the machine: copies into shared memory, round trips over sockets, the start and end of
// processes, and calls between two processes. Such a call is a Cap'n Proto message each way over a Unix socket, and all
// queued frames go out in one write. There are no futures, no order of calls and no user types: these are limits, not
// designs.

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <span>
#include <string>
#include <thread>

#include "figures.hpp"
#include "limit_call.capnp.h"
#include "one_cpu.hpp"

namespace bench {
namespace {

void require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}

void read_all(int fd, char* to, std::size_t left) {
  while (left != 0) {
    const ssize_t n = ::read(fd, to, left);
    require(n > 0, "read");
    to += n;
    left -= static_cast<std::size_t>(n);
  }
}

void write_all(int fd, const char* from, std::size_t left) {
  while (left != 0) {
    const ssize_t n = ::write(fd, from, left);
    require(n > 0, "write");
    from += n;
    left -= static_cast<std::size_t>(n);
  }
}

/// Returns the time in which 64 bytes go to each of `processes` processes and back. Each process has its own socket.
double round_trip_us(int processes, int rounds) {
  char bytes[64] = {};
  std::vector<int> sockets;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    const pid_t child = ::fork();
    if (child == 0) {
      for (int round = 0; round < rounds; ++round) {
        read_all(ends[1], bytes, sizeof bytes);
        write_all(ends[1], bytes, sizeof bytes);
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    sockets.push_back(ends[0]);
    children.push_back(child);
  }
  const double us = median_us(rounds, [&] {
    for (const int socket : sockets) write_all(socket, bytes, sizeof bytes);
    for (const int socket : sockets) read_all(socket, bytes, sizeof bytes);
  });
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (const int socket : sockets) ::close(socket);
  return us;
}

/// Returns the time of a round trip of a number in memory that two processes share, while both processes poll.
double memory_round_trip_us() {
  struct Line {
    alignas(64) std::atomic<std::uint32_t> there{0};
    alignas(64) std::atomic<std::uint32_t> back{0};
  };
  constexpr std::uint32_t kRounds = 401;
  constexpr std::uint32_t kTrips = 100;  // in a round, so that reading the clock costs little
  void* const memory = ::mmap(nullptr, sizeof(Line), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  auto* const line = new (memory) Line;
  const pid_t child = ::fork();
  require(child >= 0, "fork");
  if (child == 0) {
    for (std::uint32_t trip = 1; trip <= kRounds * kTrips; ++trip) {
      while (line->there.load(std::memory_order_acquire) != trip) {
      }
      line->back.store(trip, std::memory_order_release);
    }
    ::_exit(0);
  }
  std::uint32_t trip = 0;
  const double us = median_us(kRounds, [&] {
    for (std::uint32_t i = 0; i < kTrips; ++i) {
      line->there.store(++trip, std::memory_order_release);
      while (line->back.load(std::memory_order_acquire) != trip) {
      }
    }
  });
  ::waitpid(child, nullptr, 0);
  ::munmap(memory, sizeof(Line));
  return us / kTrips;
}

/// Returns the rate at which `threads` threads copy into shared memory whose pages exist and are in the page table.
double warm_copy_gib_per_s(std::size_t threads) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::vector<char> from(kBytes, 'x');
  const int file = ::memfd_create("limit", MFD_CLOEXEC);
  require(file >= 0 && ::ftruncate(file, static_cast<off_t>(kBytes)) == 0, "memfd_create");
  void* const to = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  require(to != MAP_FAILED, "mmap");
  std::memset(to, 1, kBytes);
  const double us = median_us(15, [&] {
    const auto copy_part = [&](std::size_t part) {
      const std::size_t size = kBytes / threads;
      std::memcpy(static_cast<char*>(to) + part * size, from.data() + part * size, size);
      asm volatile("" ::: "memory");  // keeps the compiler from removing the copy
    };
    std::vector<std::jthread> others;
    for (std::size_t part = 1; part < threads; ++part) others.emplace_back(copy_part, part);
    copy_part(0);
  });
  ::munmap(to, kBytes);
  ::close(file);
  return static_cast<double>(kBytes) / (1 << 30) / us * 1e6;
}

/// Returns the time from the start to the end of a process that runs this program and does nothing.
double exec_s() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::string nothing = kDoNothing;
  char* const words[] = {nothing.data(), nothing.data(), nullptr};
  return median_us(51,
                   [&] {
                     pid_t child = 0;
                     require(::posix_spawn(&child, self.c_str(), nullptr, nullptr, words, environ) == 0, "posix_spawn");
                     ::waitpid(child, nullptr, 0);
                   }) /
         1e6;
}

class Connection {
 public:
  explicit Connection(int socket) : socket_{socket} {}

  template <class Fill>
  void queue(Fill fill) {
    capnp::word scratch[64] = {};
    capnp::MallocMessageBuilder message{kj::arrayPtr(scratch, 64)};
    fill(message);
    const auto bytes = message.getSegmentsForOutput()[0].asBytes();
    const std::uint64_t size = bytes.size();
    const auto* const prefix = reinterpret_cast<const char*>(&size);
    out_.insert(out_.end(), prefix, prefix + sizeof size);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    write_all(socket_, out_.data(), out_.size());
    out_.clear();
  }
  /// Waits for bytes and passes every complete frame to `on_frame`. Returns false when the peer has closed.
  template <class OnFrame>
  bool receive(OnFrame on_frame) {
    const ssize_t n = ::read(socket_, in_.data() + filled_, in_.size() - filled_);
    if (n <= 0) return false;
    filled_ += static_cast<std::size_t>(n);
    std::size_t at = 0;
    while (filled_ - at >= sizeof(std::uint64_t)) {
      std::uint64_t size = 0;
      std::memcpy(&size, in_.data() + at, sizeof size);
      if (filled_ - at < sizeof size + size) break;
      on_frame(kj::arrayPtr(reinterpret_cast<const capnp::word*>(in_.data() + at + sizeof size), size / 8));
      at += sizeof size + size;
    }
    std::memmove(in_.data(), in_.data() + at, filled_ - at);
    filled_ -= at;
    return true;
  }

 private:
  int socket_;
  std::vector<char> in_ = std::vector<char>(1 << 18);
  std::size_t filled_ = 0;
  std::vector<char> out_;
};

template <class Root, class Use>
void with_root(kj::ArrayPtr<const capnp::word> words, Use use) {
  kj::ArrayPtr<const capnp::word> segments[1] = {words};
  capnp::SegmentArrayMessageReader reader{kj::arrayPtr(segments, 1)};
  use(reader.getRoot<Root>());
}

[[noreturn]] void serve_calls(int socket) {
  Connection server{socket};
  int count = 0;
  const auto answer = [&](kj::ArrayPtr<const capnp::word> words) {
    with_root<Call>(words, [&](Call::Reader call) {
      int n = 0;
      std::memcpy(&n, call.getArguments().begin(), sizeof n);
      count += n;
      server.queue([&](auto& message) {
        auto reply = message.template initRoot<Reply>();
        reply.setId(call.getId());
        reply.setValue(kj::arrayPtr(reinterpret_cast<const kj::byte*>(&count), sizeof count));
      });
    });
  };
  while (server.receive(answer)) server.flush();
  ::_exit(0);
}

void measure_calls(Report& report) {
  constexpr std::size_t kCalls = 300'000;
  constexpr std::size_t kInFlight = 2048;  // as many as the sockets hold both ways, so that blocking writes end
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  for (const int end : ends) {
    const int bytes = 4 << 20;
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    serve_calls(ends[1]);
  }
  ::close(ends[1]);
  Connection client{ends[0]};
  std::size_t done = 0;
  const auto on_reply = [&](kj::ArrayPtr<const capnp::word> words) {
    with_root<Reply>(words, [&](Reply::Reader) { ++done; });
  };
  const auto call = [&](std::uint64_t id) {
    client.queue([&](auto& message) {
      auto request = message.template initRoot<Call>();
      request.setId(id);
      request.setActor(7);
      request.setMethod(0x1234);
      request.setNumber(id);
      const int one = 1;
      request.setArguments(kj::arrayPtr(reinterpret_cast<const kj::byte*>(&one), sizeof one));
    });
  };
  report.add("limit_call_sync_median",
             median_us(20000,
                       [&] {
                         const std::size_t target = done + 1;
                         call(target);
                         client.flush();
                         while (done < target) require(client.receive(on_reply), "receive");
                       }),
             "us");
  std::vector<double> rates;
  for (int round = 0; round < 3; ++round) {
    done = 0;
    const auto start = Clock::now();
    for (std::size_t sent = 0; done < kCalls;) {
      while (sent < kCalls && sent - done < kInFlight) {
        call(sent++);
        if (sent % 64 == 0) client.flush();
      }
      client.flush();
      require(client.receive(on_reply), "receive");
    }
    rates.push_back(static_cast<double>(kCalls) / seconds_since(start));
  }
  report.add("limit_call_pipelined", median(rates), "/s");
  report.add("limit_call_pipelined_s", 1 / median(rates), "s");
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
}

}  // namespace

void measure_limits_of_ranks(Report& report) {
  if (report.wants("limit_uds_fan_out_8_median")) {
    report.add("limit_uds_fan_out_8_median", round_trip_us(8, 5000), "us");
  }
  // On one CPU each process would poll until its time slice is over.
  if (report.wants("limit_memory_rtt_median") && std::thread::hardware_concurrency() > 1) {
    report.add("limit_memory_rtt_median", memory_round_trip_us(), "us");
  }
}

void measure_limits(Report& report) {
  if (report.wants("limit_uds_rtt_unpinned_median")) {
    report.add("limit_uds_rtt_unpinned_median", round_trip_us(1, 20000), "us");
  }
  if (report.wants("limit_uds_rtt_pinned_median")) {
    const OneCpu one;
    report.add("limit_uds_rtt_pinned_median", round_trip_us(1, 20000), "us");
  }
  measure_limits_of_ranks(report);
  if (report.wants_any({"limit_exec", "limit_execs_per_s"})) {
    const double seconds = exec_s();
    report.add("limit_exec", seconds, "s");
    report.add("limit_execs_per_s", 1 / seconds, "/s");
  }
  if (report.wants("limit_memcpy_warm_shm_1_thread")) {
    report.add("limit_memcpy_warm_shm_1_thread", warm_copy_gib_per_s(1), "GiB/s");
  }
  if (report.wants("limit_memcpy_warm_shm_2_threads")) {
    report.add("limit_memcpy_warm_shm_2_threads", warm_copy_gib_per_s(2), "GiB/s");
  }
  if (report.wants_any({"limit_call_sync_median", "limit_call_pipelined", "limit_call_pipelined_s"}))
    measure_calls(report);
}

}  // namespace bench
