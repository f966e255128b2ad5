// The peer of decision 1: Boost.Asio sends the frames of a Pharos call and its reply between two processes. Each
// process has an io_context, one thread and coroutines. There are no futures, no order of calls and no user types.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio.hpp>

#include <pharos/wire/frame.hpp>

#include "figures.hpp"
#include "one_cpu.hpp"

namespace bench {
namespace {

namespace asio = boost::asio;
namespace wire = pharos::wire;
using Socket = asio::local::stream_protocol::socket;

/// The frame of a call of Counter::add(int) in core.cpp, and of its reply: a header and an int.
class Frame {
 public:
  void set(const wire::FrameHeader& header, int value) {
    std::memcpy(bytes_.data(), &header, sizeof header);
    std::memcpy(bytes_.data() + sizeof header, &value, sizeof value);
  }
  wire::FrameHeader header() const {
    wire::FrameHeader header;
    std::memcpy(&header, bytes_.data(), sizeof header);
    return header;
  }
  int value() const {
    int value = 0;
    std::memcpy(&value, bytes_.data() + sizeof(wire::FrameHeader), sizeof value);
    return value;
  }
  asio::mutable_buffer buffer() { return asio::buffer(bytes_); }

 private:
  std::array<std::byte, sizeof(wire::FrameHeader) + sizeof(int)> bytes_{};
};

asio::awaitable<void> answer_calls(Socket& socket) {
  Frame frame;
  int count = 0;
  for (;;) {
    co_await asio::async_read(socket, frame.buffer(), asio::use_awaitable);  // throws when the peer has closed
    wire::FrameHeader header = frame.header();
    header.kind = wire::FrameKind::kReply;
    count += frame.value();
    frame.set(header, count);
    co_await asio::async_write(socket, frame.buffer(), asio::use_awaitable);
  }
}

asio::awaitable<void> make_calls(Socket& socket, std::vector<double>& us) {
  Frame frame;
  for (std::uint64_t number = 1; number <= us.size(); ++number) {
    const auto start = Clock::now();
    frame.set({.payload_bytes = sizeof(int), .kind = wire::FrameKind::kCall, .number = number, .actor = 7}, 1);
    co_await asio::async_write(socket, frame.buffer(), asio::use_awaitable);
    co_await asio::async_read(socket, frame.buffer(), asio::use_awaitable);
    us[number - 1] = seconds_since(start) * 1e6;
  }
}

/// If `looks` is true, the thread of the context polls and never sleeps.
void run(asio::io_context& context, bool looks) {
  while (looks && !context.stopped()) context.poll();
  context.run();
}

double call_us(bool looks = false) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    std::perror("socketpair");
    std::exit(1);
  }
  const pid_t child = ::fork();
  ::close(ends[child == 0 ? 0 : 1]);
  asio::io_context context{1};
  Socket socket{context, asio::local::stream_protocol{}, ends[child == 0 ? 1 : 0]};
  if (child == 0) {
    asio::co_spawn(context, answer_calls(socket), [](const std::exception_ptr&) {});
    run(context, looks);
    ::_exit(0);
  }
  std::vector<double> us(20'000);
  asio::co_spawn(context, make_calls(socket, us), [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  });
  run(context, looks);
  socket.close();
  ::waitpid(child, nullptr, 0);
  return median(std::move(us));
}

}  // namespace

void measure_asio(Report& report) {
  if (report.wants("asio_call_sync_median")) report.add("asio_call_sync_median", call_us(), "us");
  if (report.wants("asio_call_sync_polling_median") && std::thread::hardware_concurrency() > 1) {
    report.add("asio_call_sync_polling_median", call_us(true), "us");
  }
  if (report.wants("asio_call_sync_pinned_median")) {
    const OneCpu one;
    report.add("asio_call_sync_pinned_median", call_us(), "us");
  }
}

}  // namespace bench
