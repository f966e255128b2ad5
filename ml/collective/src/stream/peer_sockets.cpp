#include "stream/peer_sockets.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <utility>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWakes = ~std::uint64_t{0};
constexpr Duration kFarewellTime = 200ms;  // for the last messages before the connections are closed

}  // namespace

struct PeerSockets::Peer {
  std::array<std::optional<Stream>, kStreams> streams;
  std::array<std::unique_ptr<Stream::Receiver>, kStreams> receivers;
  std::array<bool, kStreams> waits_to_write{};
  std::array<bool, kStreams> expects_end{};
};

PeerSockets::PeerSockets(Connections connections, std::uint64_t bytes_per_second)
    : wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      events_{::epoll_create1(EPOLL_CLOEXEC)},
      why_not_made_{wake_ && events_ ? 0 : errno},
      peers_(connections.size()),
      pace_{bytes_per_second} {
  for (std::size_t rank = 0; rank < connections.size(); ++rank) {
    if (connections[rank].empty()) continue;  // this rank
    peers_[rank] = std::make_unique<Peer>();
    for (std::size_t i = 0; i < kStreams; ++i) {
      peers_[rank]->streams[i].emplace(std::move(connections[rank][i]), bytes_sent_);
    }
  }
}

PeerSockets::~PeerSockets() = default;

Result<void> PeerSockets::start(const MakeReceiver& make_receiver) {
  if (why_not_made_ != 0) {
    return Error::from_errno("creating the eventfd and the epoll of a communicator", why_not_made_);
  }
  int why_not_watched = 0;
  const auto watch = [&](int descriptor, std::uint64_t data) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = data;
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) why_not_watched = errno;
  };
  watch(wake_.get(), kWakes);
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    for (std::uint32_t stream = 0; peers_[rank] && stream < kStreams; ++stream) {
      Peer& peer = *peers_[rank];
      peer.receivers[stream] = make_receiver(rank, stream);
      watch(peer.streams[stream]->descriptor(), rank * kStreams + stream);
    }
  }
  if (why_not_watched != 0) return Error::from_errno("waiting for other ranks", why_not_watched);
  return {};
}

void PeerSockets::wake() const {
  ::eventfd_write(wake_.get(), 1);
}

template <class F>
void PeerSockets::for_streams(const F& f) {
  for (const auto& peer : peers_) {
    for (std::uint32_t i = 0; peer != nullptr && i < kStreams; ++i) {
      if (peer->streams[i]) f(*peer->streams[i]);
    }
  }
}

// ---- Messages

bool PeerSockets::is_open(std::uint32_t rank, std::uint32_t stream) const {
  return peers_[rank]->streams[stream].has_value();
}

void PeerSockets::send(std::uint32_t rank, std::uint32_t stream, const StreamMessage& message, const std::byte* bytes,
                       std::function<void()> sent) {
  if (auto& to = peers_[rank]->streams[stream]) to->send(message, bytes, std::move(sent));
}

void PeerSockets::send_to_all(const StreamMessage& message) {
  for_streams([&](Stream& stream) { stream.send(message, nullptr); });
}

void PeerSockets::send_only(const StreamMessage& message, const std::string& text) {
  for_streams([&](Stream& stream) {
    stream.drop_unsent();
    stream.send_text(message, text);
  });
}

void PeerSockets::expect_end(std::uint32_t rank, std::uint32_t stream) {
  peers_[rank]->expects_end[stream] = true;
}
bool PeerSockets::expects_end(std::uint32_t rank, std::uint32_t stream) const {
  return peers_[rank]->expects_end[stream];
}

// ---- Sending and receiving

/// Each turn begins with another rank, so that all ranks get a share when bytes_per_second bounds what is sent.
std::optional<PeerSockets::Lost> PeerSockets::write_all() {
  const auto ranks = static_cast<std::uint32_t>(peers_.size());
  first_to_write_ = (first_to_write_ + 1) % ranks;
  for (std::uint32_t turn = 0; turn < ranks; ++turn) {
    const std::uint32_t rank = (first_to_write_ + turn) % ranks;
    for (std::uint32_t stream = 0; peers_[rank] && stream < kStreams; ++stream) {
      if (auto lost = write_some(rank, stream)) return lost;
    }
  }
  return std::nullopt;
}

std::optional<PeerSockets::Lost> PeerSockets::write_some(std::uint32_t rank, std::uint32_t stream) {
  Peer& peer = *peers_[rank];
  auto& to = peer.streams[stream];
  if (!to) return std::nullopt;
  const std::size_t may_send = pace_.may_send();
  const auto written = to->write(may_send);
  if (!written) return Lost{rank, written.error()};
  pace_.sent(*written);
  const bool waits_to_write = to->has_to_send() && *written < may_send;
  if (waits_to_write == peer.waits_to_write[stream]) return std::nullopt;
  peer.waits_to_write[stream] = waits_to_write;
  epoll_event event{};
  event.events = EPOLLIN | (waits_to_write ? std::uint32_t{EPOLLOUT} : 0U);
  event.data.u64 = rank * kStreams + stream;
  ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, to->descriptor(), &event);
  return std::nullopt;
}

/// For epoll: -1 if there is no time to wait for.
int PeerSockets::milliseconds_until(std::optional<TimePoint> when) {
  if (pace_.is_bounded()) {
    bool has_to_send = false;
    for_streams([&](Stream& stream) { has_to_send = has_to_send || stream.has_to_send(); });
    if (has_to_send) return 1;
  }
  if (!when) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*when - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
}

std::optional<PeerSockets::Lost> PeerSockets::serve(std::optional<TimePoint> when,
                                                    const std::function<bool()>& goes_on) {
  std::array<epoll_event, 64> events{};
  const int n = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), milliseconds_until(when));
  for (int i = 0; i < n && goes_on(); ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWakes) {
      eventfd_t times = 0;
      ::eventfd_read(wake_.get(), &times);
      continue;
    }
    if ((event.events & ~std::uint32_t{EPOLLOUT}) == 0) continue;
    const auto rank = static_cast<std::uint32_t>(event.data.u64 / kStreams);
    if (auto lost = read_some(rank, static_cast<std::uint32_t>(event.data.u64 % kStreams))) return lost;
  }
  return std::nullopt;
}

std::optional<PeerSockets::Lost> PeerSockets::read_some(std::uint32_t rank, std::uint32_t stream) {
  Peer& peer = *peers_[rank];
  if (!peer.streams[stream]) return std::nullopt;
  const auto read = peer.streams[stream]->read(*peer.receivers[stream]);
  if (read) return std::nullopt;
  if (!peer.expects_end[stream]) return Lost{rank, read.error()};
  peer.streams[stream].reset();
  return std::nullopt;
}

/// What other ranks still send is read and dropped: to close a socket with unread bytes would reset the connection, and
/// the other rank could lose what was sent to it.
void PeerSockets::say_farewell() {
  const TimePoint end = std::chrono::steady_clock::now() + kFarewellTime;
  std::vector<std::byte> let_go(64 << 10);
  for (;;) {
    std::vector<pollfd> waited;
    for (const auto& peer : peers_) {
      for (std::uint32_t i = 0; peer != nullptr && i < kStreams; ++i) {
        auto& stream = peer->streams[i];
        if (!stream) continue;
        bool lives = static_cast<bool>(stream->write(std::numeric_limits<std::size_t>::max()));
        if (lives && !stream->has_to_send()) ::shutdown(stream->descriptor(), SHUT_WR);
        ssize_t n = 0;
        do {
          n = ::recv(stream->descriptor(), let_go.data(), let_go.size(), MSG_DONTWAIT);
        } while (n > 0);
        lives = lives && n < 0 && errno == EAGAIN;
        if (!lives) {
          stream.reset();
        } else {
          const auto events = static_cast<short>(POLLIN | (stream->has_to_send() ? POLLOUT : 0));
          waited.push_back({.fd = stream->descriptor(), .events = events, .revents = 0});
        }
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (waited.empty() || left.count() <= 0) break;
    ::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
  }
  for (const auto& peer : peers_) {
    for (std::uint32_t i = 0; peer != nullptr && i < kStreams; ++i) peer->streams[i].reset();
  }
}

}  // namespace pharos::ml
