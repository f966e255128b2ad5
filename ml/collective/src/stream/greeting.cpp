#include "stream/greeting.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include <pharos/net/blocking_io.hpp>

namespace pharos::ml {
namespace {

// While no connection can be accepted, poll() would return at once, because connections wait at the listening socket.
constexpr Duration kNoDescriptorTime = std::chrono::milliseconds{50};

}  // namespace

struct Greeting::Heard {
  Heard(Fd connected, net::Identity self) : socket{std::move(connected)}, acceptor{self} {}

  Fd socket;
  net::Acceptor acceptor;
  std::array<std::byte, net::kHelloBytes + net::kProofBytes> said{};
  std::size_t bytes = 0;  // the bytes of `said` that have come
};

Greeting::Greeting(const Fd& listener, const net::Key& key, net::Identity self)
    : listener_{listener}, key_{key}, self_{self} {}
Greeting::~Greeting() = default;

std::optional<Greeting::Guest> Greeting::next(Deadline deadline, std::span<const int> those) {
  for (;;) {
    const bool can_accept = accept_all();
    for (auto each = heard_.begin(); each != heard_.end();) {
      std::optional<Guest> guest;
      if (hear(**each, guest)) {
        ++each;
        continue;
      }
      each = heard_.erase(each);
      if (guest) return guest;
    }
    const Duration most = can_accept ? std::chrono::hours{1} : kNoDescriptorTime;
    const Duration left = std::min(deadline.left(std::chrono::steady_clock::now()), most);
    if (left == Duration::zero()) return std::nullopt;
    std::vector<pollfd> waited;
    for (const int each : those) waited.push_back({.fd = each, .events = POLLRDHUP, .revents = 0});
    if (can_accept) waited.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
    for (const auto& each : heard_) waited.push_back({.fd = each->socket.get(), .events = POLLIN, .revents = 0});
    ::poll(waited.data(), waited.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    const auto is_closed = [](const pollfd& each) { return each.revents != 0; };
    if (std::any_of(waited.begin(), waited.begin() + static_cast<std::ptrdiff_t>(those.size()), is_closed)) {
      return std::nullopt;
    }
  }
}

bool Greeting::has_begun() {
  accept_all();
  return !heard_.empty();
}

/// Returns false if connections wait that cannot be accepted, because there are no descriptors left.
bool Greeting::accept_all() {
  for (;;) {
    Fd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) {
      if (heard_.size() == kHeardMax) heard_.erase(heard_.begin());
      heard_.push_back(std::make_unique<Heard>(std::move(socket), self_));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
}

/// Returns false when the handshake is over. It has succeeded if `guest` is set.
bool Greeting::hear(Heard& heard, std::optional<Guest>& guest) const {
  for (;;) {
    const std::size_t end = heard.bytes < net::kHelloBytes ? net::kHelloBytes : heard.said.size();
    const auto came =
        net::receive_some(heard.socket.get(), std::span{heard.said}.subspan(heard.bytes, end - heard.bytes));
    if (!came) return false;
    heard.bytes += *came;
    if (heard.bytes < end) {
      if (*came == 0) return true;
      continue;
    }
    if (end == net::kHelloBytes) {
      const auto answer = heard.acceptor.answer(std::span{heard.said}.first<net::kHelloBytes>(),
                                                [this](net::Identity, std::uint64_t) { return std::optional{key_}; });
      // The deadline has passed, so that this does not wait: the buffer of a new socket takes so few bytes at once.
      if (!net::send_all(heard.socket.get(), answer, Deadline::at(TimePoint::min()))) return false;
      continue;
    }
    const auto proved = heard.acceptor.finish(std::span{heard.said}.last<net::kProofBytes>());
    if (proved) guest = Guest{proved->id, std::move(heard.socket)};
    return false;
  }
}

}  // namespace pharos::ml
