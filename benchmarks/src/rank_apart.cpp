// One of two ranks that reach each other only over TCP. Measures their all-reduce, and beside it plain sockets between
// the same two processes.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>

#include "figures.hpp"

namespace bench {
namespace {

namespace ml = pharos::ml;
using pharos::Deadline;
using pharos::Fd;

constexpr std::uint16_t kPort = 7600;  // of the plain socket
constexpr std::size_t kMiB = std::size_t{1} << 20;

template <class T>
T value_or_throw(pharos::Result<T> result) {
  if (!result) throw std::runtime_error{result.error().to_string()};
  return *std::move(result);
}
void throw_unless(const pharos::Result<void>& result) {
  if (!result) throw std::runtime_error{result.error().to_string()};
}

/// Returns a connection between the two ranks, with the socket options that a communicator uses.
Fd plain_socket(ml::Communicator& ranks, Deadline deadline) {
  const pharos::net::Address place{.unix_socket = false, .place = std::getenv("MASTER_ADDR"), .port = kPort};
  Fd socket;
  if (ranks.rank() == 0) {
    const Fd listener = value_or_throw(pharos::net::listen_at(place));
    ranks.barrier();
    do {
      socket = Fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    } while (!socket && (errno == EINTR || errno == EAGAIN));
  } else {
    ranks.barrier();
    socket = value_or_throw(pharos::net::connect_to(place, deadline));
  }
  if (!socket) throw std::runtime_error{"no connection between the ranks"};
  throw_unless(pharos::net::set_up_far_socket(socket.get()));
  return socket;
}

/// Returns the time from the moment when both ranks have arrived until both are done.
double time_us(ml::Communicator& ranks, const std::function<void()>& work) {
  ranks.barrier();
  const auto begin = Clock::now();
  work();
  double time = seconds_since(begin) * 1e6;
  ranks.all_reduce(std::span{&time, 1}, ml::Reduction::kMax);
  return time;
}

void measure(ml::Communicator& ranks) {
  const Deadline deadline = Deadline::in(std::chrono::minutes{5});
  const Fd socket = plain_socket(ranks, deadline);
  const auto say = [&](const std::string& name, double value, const char* unit) {
    if (ranks.rank() == 0) std::printf("%s %.9g %s\n", name.c_str(), value, unit);
  };
  for (const std::size_t mib : {1U, 32U, 256U}) {
    std::vector<float> data(mib * kMiB / sizeof(float), 1);
    std::vector<float> theirs(data.size());
    // In an all-reduce of two ranks each sends half of its data, and then the sums of the other half. So each rank
    // sends and receives as many bytes as the data has.
    const auto both_ways = [&] {
      std::thread sender{
          [&] { throw_unless(pharos::net::send_all(socket.get(), std::as_bytes(std::span{data}), deadline)); }};
      throw_unless(pharos::net::receive_all(socket.get(), std::as_writable_bytes(std::span{theirs}), deadline));
      sender.join();
    };
    std::vector<double> ours;
    std::vector<double> plain;
    for (int round = 0; round < (mib == 256 ? 5 : 21); ++round) {
      ours.push_back(time_us(ranks, [&] { ranks.all_reduce(std::span{data}, ml::Reduction::kMean); }));
      plain.push_back(time_us(ranks, both_ways));
    }
    const std::string behind = std::to_string(mib) + "MiB_2";
    say("limit_tcp_both_ways_" + behind, static_cast<double>(mib) / 1024 / (median(plain) / 1e6), "GiB/s");
    say("tcp_allreduce_" + behind, static_cast<double>(mib) / 1024 / (median(ours) / 1e6), "GiB/s");
    say("tcp_allreduce_over_plain_" + behind, median(plain) / median(ours), "of plain TCP");
  }
  std::vector<float> little(1024, 1);
  const auto there_and_back = [&] {
    const auto bytes = std::as_writable_bytes(std::span{little});
    if (ranks.rank() == 0) throw_unless(pharos::net::send_all(socket.get(), bytes, deadline));
    throw_unless(pharos::net::receive_all(socket.get(), bytes, deadline));
    if (ranks.rank() == 1) throw_unless(pharos::net::send_all(socket.get(), bytes, deadline));
  };
  say("limit_tcp_4KiB_there_and_back_us", median_us(1000, there_and_back), "us");
  say("tcp_allreduce_4KiB_us_2", median_us(1000, [&] { ranks.all_reduce(std::span{little}, ml::Reduction::kMean); }),
      "us");
}

}  // namespace

int run_rank_apart() {
  ml::Communicator ranks = ml::Communicator::from_environment();
  measure(ranks);
  ranks.barrier();
  return 0;
}

}  // namespace bench
