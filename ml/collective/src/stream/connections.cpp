#include "stream/connections.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>

#include "stream/greeting.hpp"
#include "stream/stream.hpp"

namespace pharos::ml {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;
constexpr Duration kFarewell = std::chrono::milliseconds{500};

std::string who(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

Result<void> set_up(const Fd& socket) {
  for (const int which : {SO_SNDBUF, SO_RCVBUF}) {
    ::setsockopt(socket.get(), SOL_SOCKET, which, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  }
  return net::set_up_far_socket(socket.get());
}

bool is_closed(const Fd& socket) {
  pollfd polled{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
  return socket && ::poll(&polled, 1, 0) == 1;
}

/// If the rank has closed the connection: returns the error with which it gave up, or kActorDied if it sent nothing.
/// Returns nullopt while the connection is open, and also if another message has come: then that rank was connected to
/// all ranks, and this rank reads its messages once it is connected, too.
std::optional<Error> end_of(std::size_t rank, const Fd& socket) {
  if (!is_closed(socket)) return std::nullopt;
  struct {
    StreamMessage message;
    std::array<char, StreamMessage::kTextMax> text;
  } word;
  const ssize_t n = ::recv(socket.get(), &word, sizeof word, MSG_PEEK | MSG_DONTWAIT);
  if (n <= 0) {
    return Error{ErrorCode::kActorDied, who(rank) + " has died before all ranks had joined the group",
                 "Connect the group again without this rank, or with another process in its place."};
  }
  const auto size = static_cast<std::size_t>(n);
  if (size < sizeof word.message || word.message.kind != StreamMessage::Kind::kGaveUp) return std::nullopt;
  return error_of(word.message.tag, {word.text.data(), size - sizeof word.message});
}

/// The search of one rank for the others. If it fails, the ranks that have been found are told why.
class Search {
 public:
  Search(const Fd& listener, const std::vector<std::string>& addresses, const net::Key& key, std::uint32_t rank,
         std::uint32_t sockets, Deadline deadline)
      : addresses_{addresses},
        key_{key},
        rank_{rank},
        sockets_{sockets},
        deadline_{deadline},
        greeting_{listener, key, {net::Role::kWorker, rank}},
        found_(addresses.size()) {
    for (std::size_t other = 0; other < found_.size(); ++other) {
      if (other != rank) found_[other].resize(sockets);
    }
  }

  Result<Connections> run() {
    auto found = find_all();
    if (found) return std::move(found_);
    let_in_who_has_come();
    tell(found.error());
    return found.error();
  }

 private:
  // Each rank connects to all lower ranks, and then accepts connections of all higher ranks. So ranks never wait for
  // each other in a circle: rank 0 accepts at once.
  Result<void> find_all() {
    for (std::uint32_t other = 0; other < rank_; ++other) {
      for (Fd& socket : found_[other]) {
        auto reached = reach(other, static_cast<std::uint32_t>(&socket - found_[other].data()));
        if (!reached) {
          PHAROS_TRY_VOID(check());
          return Error{reached.error()}.with("connecting to " + who(other));
        }
        PHAROS_TRY_VOID(set_up(*reached));
        socket = *std::move(reached);
      }
    }
    for (std::size_t left = (found_.size() - 1 - rank_) * sockets_; left > 0;) {
      PHAROS_TRY_VOID(check());
      if (deadline_.expired(std::chrono::steady_clock::now())) return is_late();
      auto guest = greeting_.next(deadline_, open_ones());
      if (!guest) continue;
      PHAROS_TRY(const bool is_new, let_in(*std::move(guest)));
      if (is_new) --left;
    }
    return {};
  }

  /// Returns false if this is no rank that is waited for.
  Result<bool> let_in(Greeting::Guest guest) {
    const std::uint64_t other = guest.id / sockets_;
    const std::uint64_t which = guest.id % sockets_;
    if (other >= found_.size() || other <= rank_ || found_[other][which]) return false;
    PHAROS_TRY_VOID(set_up(guest.socket));
    found_[other][which] = std::move(guest.socket);
    return true;
  }

  /// A rank whose handshake is cut off would take this rank for dead.
  void let_in_who_has_come() {
    const Deadline end = Deadline::in(kFarewell);
    while (greeting_.has_begun() && !end.expired(std::chrono::steady_clock::now())) {
      if (auto guest = greeting_.next(end))
        static_cast<void>(let_in(*std::move(guest)));  // fails only if that rank is gone
    }
  }

  Result<Fd> reach(std::uint32_t other, std::uint32_t which) const {
    PHAROS_TRY(const net::Address address, net::parse_address(addresses_[other]));
    PHAROS_TRY(Fd socket, net::connect_to(address, deadline_));
    net::Initiator initiator{key_, {net::Role::kWorker, rank_ * sockets_ + which}};
    PHAROS_TRY_VOID(net::send_all(socket.get(), initiator.hello(), deadline_));
    PHAROS_TRY_VOID(wait_for(socket));
    std::array<std::byte, net::kHelloBytes + net::kProofBytes> answer;
    PHAROS_TRY_VOID(net::receive_all(socket.get(), answer, deadline_));
    PHAROS_TRY(const auto proof, initiator.answer(answer));
    PHAROS_TRY_VOID(net::send_all(socket.get(), proof, deadline_));
    return socket;
  }

  /// Waits until the other rank answers, or until a rank that has been found closes its connection: the other rank may
  /// be waiting for that one, and never answer.
  Result<void> wait_for(const Fd& socket) const {
    std::vector<pollfd> waited{{.fd = socket.get(), .events = POLLIN, .revents = 0}};
    for (const int each : open_ones()) waited.push_back({.fd = each, .events = POLLRDHUP, .revents = 0});
    const Duration left = std::min<Duration>(deadline_.left(std::chrono::steady_clock::now()), std::chrono::hours{1});
    ::poll(waited.data(), waited.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    return check();
  }

  Result<void> check() const {
    for (std::size_t rank = 0; rank < found_.size(); ++rank) {
      for (const Fd& each : found_[rank]) {
        if (auto why = end_of(rank, each)) return *std::move(why);
      }
    }
    return {};
  }

  Error is_late() const {
    const auto missing = std::find_if(found_.begin(), found_.end(), [](const std::vector<Fd>& its) {
      return std::any_of(its.begin(), its.end(), [](const Fd& each) { return !each; });
    });
    return {ErrorCode::kDeadlineExceeded,
            who(static_cast<std::size_t>(missing - found_.begin())) + " did not join the group in time",
            "Check the process of this rank, and whether it can reach " + addresses_[rank_] + '.'};
  }

  std::vector<int> open_ones() const {
    std::vector<int> all;
    for (const auto& its : found_) {
      for (const Fd& each : its) {
        if (each && !is_closed(each)) all.push_back(each.get());
      }
    }
    return all;
  }

  /// Nothing has been sent on these connections since their handshakes, so their buffers take the text at once.
  void tell(const Error& why) {
    std::atomic<std::uint64_t> sent = 0;
    for (auto& its : found_) {
      for (Fd& each : its) {
        if (!each) continue;
        Stream stream{std::move(each), sent};
        stream.send_text({.kind = StreamMessage::Kind::kGaveUp, .tag = static_cast<std::uint32_t>(why.code())},
                         told(why));
        static_cast<void>(stream.write(std::numeric_limits<std::size_t>::max()));  // fails only if that rank is gone
      }
    }
  }

  const std::vector<std::string>& addresses_;
  const net::Key& key_;
  const std::uint32_t rank_;
  const std::uint32_t sockets_;
  const Deadline deadline_;
  Greeting greeting_;
  Connections found_;
};

}  // namespace

Result<Connections> connect_ranks(const Fd& listener, const std::vector<std::string>& addresses, const net::Key& key,
                                  std::uint32_t rank, std::uint32_t sockets, Deadline deadline) {
  return Search{listener, addresses, key, rank, sockets, deadline}.run();
}

}  // namespace pharos::ml
