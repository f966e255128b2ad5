#include "launch/rendezvous.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/wire/stored_codec.hpp>

#include "stream/greeting.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMessageBytesMax = 64 << 10;
constexpr Duration kPause = 10ms;  // before a rank tries again to connect to rank 0

struct Arrival {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  detail::RankOffer offer{};
};
struct Answer {
  Met met{};  ///< Without offers if the meeting has failed.
  ErrorCode code{};
  std::string why{};
  std::string remedy{};

  static Answer of(const Error& error) { return {{}, error.code(), error.message(), error.remedy()}; }
};

template <class T>
Result<void> send(int socket, const T& value, Deadline deadline) {
  PHAROS_TRY(const auto bytes, to_bytes(value));
  const auto size = static_cast<std::uint32_t>(bytes.size());
  PHAROS_TRY_VOID(net::send_all(socket, std::as_bytes(std::span{&size, 1}), deadline));
  return net::send_all(socket, bytes, deadline);
}

template <class T>
Result<T> receive(int socket, Deadline deadline) {
  std::uint32_t size = 0;
  PHAROS_TRY_VOID(net::receive_all(socket, std::as_writable_bytes(std::span{&size, 1}), deadline));
  if (size > kMessageBytesMax) return Error{ErrorCode::kCorrupt, "a message of " + std::to_string(size) + " bytes"};
  std::vector<std::byte> bytes(size);
  PHAROS_TRY_VOID(net::receive_all(socket, bytes, deadline));
  return from_bytes<T>(bytes);
}

// A process that listened here before may have been killed, and may have left the file of its socket.
Result<Fd> listen(const net::Address& place) {
  auto listener = net::listen_at(place);
  if (listener || listener.error().code() != ErrorCode::kAlreadyExists || !place.unix_socket) return listener;
  if (net::connect_to(place, Deadline::in(1s))) return listener;
  ::unlink(place.place.c_str());
  return net::listen_at(place);
}

class Host {
 public:
  Host(Fd listener, const net::Key& token, std::uint32_t ranks, const detail::RankOffer& own, Deadline deadline)
      : listener_{std::move(listener)},
        greeting_{listener_, token, {net::Role::kWorker, 0}},
        deadline_{deadline},
        sockets_(ranks),
        offers_(ranks) {
    offers_[0] = own;
  }

  Result<Met> run() {
    auto all = wait_for_all();
    const Met met{offers_, detail::new_rank_key()};
    const Answer answer = all ? Answer{.met = met} : Answer::of(all.error());
    // A rank that does not get the answer is found missing when the ranks connect.
    for (const Fd& socket : sockets_) {
      if (socket) static_cast<void>(send(socket.get(), answer, deadline_));
    }
    if (!all) return all.error();
    return met;
  }

 private:
  Result<void> wait_for_all() {
    for (std::size_t come = 1; come < offers_.size();) {
      auto guest = greeting_.next(deadline_);
      if (!guest) return missing();
      auto arrival = receive<Arrival>(guest->socket.get(), std::min(deadline_, Deadline::in(1s)));
      if (!arrival) continue;
      if (auto may = check(*arrival); !may) {
        static_cast<void>(send(guest->socket.get(), Answer::of(may.error()), deadline_));
        return may;
      }
      sockets_[arrival->rank] = std::move(guest->socket);
      offers_[arrival->rank] = std::move(arrival->offer);
      ++come;
    }
    return {};
  }

  Result<void> check(const Arrival& arrival) const {
    const std::string who = "rank " + std::to_string(arrival.rank) + " of " + std::to_string(arrival.ranks);
    if (arrival.ranks != offers_.size() || arrival.rank >= offers_.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   who + " cannot join a group of " + std::to_string(offers_.size()) + " ranks",
                   "Launch all ranks with the same number of ranks."};
    }
    if (arrival.rank == 0 || sockets_[arrival.rank]) {
      return Error{ErrorCode::kInvalidArgument, "two processes say that they are " + who,
                   "Give each launch a MASTER_PORT of its own."};
    }
    return {};
  }

  Error missing() const {
    std::string who;
    for (std::size_t rank = 1; rank < sockets_.size(); ++rank) {
      if (!sockets_[rank]) who += (who.empty() ? "" : ", ") + std::to_string(rank);
    }
    return Error{ErrorCode::kDeadlineExceeded,
                 "of " + std::to_string(sockets_.size()) + " ranks, these did not join in time: " + who,
                 "Check the processes of these ranks."};
  }

  const Fd listener_;
  Greeting greeting_;
  const Deadline deadline_;
  std::vector<Fd> sockets_;  // by rank
  std::vector<detail::RankOffer> offers_;
};

Result<Fd> connect(const MeetingPlace& place, std::uint32_t rank, Deadline deadline) {
  PHAROS_TRY(Fd socket, net::connect_to(place.address, deadline));
  if (!place.address.unix_socket) PHAROS_TRY_VOID(net::set_up_far_socket(socket.get()));
  PHAROS_TRY_VOID(net::initiate(socket.get(), place.token, {net::Role::kWorker, rank}, deadline));
  return socket;
}

Result<Fd> reach(const MeetingPlace& place, std::uint32_t rank, Deadline deadline) {
  for (;;) {
    auto socket = connect(place, rank, deadline);
    if (socket || socket.error().code() == ErrorCode::kPermissionDenied) return socket;
    if (deadline.expired(std::chrono::steady_clock::now())) {
      return Error{ErrorCode::kDeadlineExceeded, "rank 0 could not be reached in time at " + place.address.to_string(),
                   "Check the process of rank 0."};
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Returns the local address of the connection to rank 0: other ranks are taken to reach this rank by it, too.
Result<std::string> host_of(int socket) {
  PHAROS_TRY(const net::Address here, net::bound_address(socket));
  return here.place;
}

}  // namespace

Result<Met> meet_at(const MeetingPlace& place, std::uint32_t rank, std::uint32_t ranks, const MakeOffer& make,
                    Deadline deadline) {
  const net::Address& address = place.address;
  if (rank == 0) {
    PHAROS_TRY(const detail::RankOffer own, make(address.unix_socket ? "" : address.place));
    PHAROS_TRY(Fd listener, listen(address));
    auto met = Host{std::move(listener), place.token, ranks, own, deadline}.run();
    if (address.unix_socket) ::unlink(address.place.c_str());
    return met;
  }
  PHAROS_TRY(const Fd socket, reach(place, rank, deadline));
  std::string host;
  if (!address.unix_socket) {
    PHAROS_TRY(host, host_of(socket.get()));
  }
  PHAROS_TRY(const detail::RankOffer own, make(host));
  PHAROS_TRY_VOID(send(socket.get(), Arrival{rank, ranks, own}, deadline));
  // Rank 0 waits for other ranks until the deadline, and then sends which ones are missing: that may come a little
  // later.
  auto answer = receive<Answer>(socket.get(), Deadline::after(1s, deadline.when()));
  if (!answer) return Error{answer.error()}.with("waiting for rank 0 to send the addresses of all ranks");
  if (answer->met.offers.empty()) return Error{answer->code, answer->why, answer->remedy};
  if (answer->met.offers.size() != ranks) {
    return Error{ErrorCode::kCorrupt, "rank 0 sent the addresses of a different number of ranks"};
  }
  return std::move(answer->met);
}

}  // namespace pharos::ml
