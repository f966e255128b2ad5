#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/net/blocking_io.hpp>

#include "stream/connections.hpp"
#include "stream/peer_sockets.hpp"
#include "stream/stream.hpp"

namespace pharos::ml {

/// Returns the connections of each rank to all others, which are socket pairs of this process.
inline std::vector<Connections> connections_of(std::uint32_t ranks) {
  std::vector<Connections> all(ranks);
  for (Connections& each : all) each.resize(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t other = 0; other < rank; ++other) {
      for (std::uint32_t stream = 0; stream < PeerSockets::kStreams; ++stream) {
        auto ends = *net::socket_pair();
        all[rank][other].push_back(std::move(ends.first));
        all[other][rank].push_back(std::move(ends.second));
      }
    }
  }
  return all;
}

/// A rank that a test plays: it says what the test wants to another rank, and hears what that rank says. One thread.
class PlayedRank {
 public:
  struct Heard {
    StreamMessage message;
    std::string bytes;
  };

  explicit PlayedRank(std::vector<Fd> connections) {
    for (std::size_t stream = 0; stream < PeerSockets::kStreams; ++stream) {
      ways_[stream].socket.emplace(std::move(connections[stream]), bytes_sent_);
    }
  }
  PlayedRank(PlayedRank&&) = delete;

  /// Says it at once. The other rank reads, if the message does not fit into the socket.
  void say(const StreamMessage& message, std::span<const std::byte> bytes = {}, std::uint32_t stream = 0) {
    StreamMessage whole = message;
    whole.bytes = bytes.size();
    Stream& to = *ways_[stream].socket;
    to.send(whole, bytes.data());
    while (to.has_to_send() && to.write(std::numeric_limits<std::size_t>::max())) {
    }
  }
  void say_failed(const std::string& text, ErrorCode code) {
    Stream& to = *ways_[0].socket;
    to.send_text({.kind = StreamMessage::Kind::kFailed, .tag = static_cast<std::uint32_t>(code)}, text);
    EXPECT_TRUE(to.write(std::numeric_limits<std::size_t>::max()));
  }
  /// Sends bytes that need not be a message.
  void say_bytes(std::span<const std::byte> bytes) const {
    EXPECT_EQ(::send(ways_[0].socket->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Waits for the next message. Returns nullopt if the connection has ended.
  std::optional<Heard> next(std::uint32_t stream = 0) {
    Way& way = ways_[stream];
    while (way.heard.empty()) {
      if (!has_come(stream, std::chrono::seconds{20})) {
        ADD_FAILURE() << "nothing has come in 20 s";
        return std::nullopt;
      }
      if (!way.socket->read(way)) break;
    }
    if (way.heard.empty()) return std::nullopt;
    Heard heard = std::move(way.heard.front());
    way.heard.pop_front();
    return heard;
  }
  /// Returns whether something has come that next() has not read, or the connection has ended.
  bool has_come(std::uint32_t stream = 0, std::chrono::milliseconds time = {}) const {
    pollfd waits{.fd = ways_[stream].socket->descriptor(), .events = POLLIN, .revents = 0};
    return !ways_[stream].heard.empty() || ::poll(&waits, 1, static_cast<int>(time.count())) > 0;
  }
  void close(std::uint32_t stream) { ways_[stream].socket.reset(); }
  void close() {
    for (std::uint32_t stream = 0; stream < PeerSockets::kStreams; ++stream) close(stream);
  }

 private:
  struct Way final : Stream::Receiver {
    Result<std::byte*> place(const StreamMessage& message) override {
      coming.resize(message.bytes);
      return reinterpret_cast<std::byte*>(coming.data());
    }
    void came(const StreamMessage& message) override { heard.push_back({message, std::exchange(coming, {})}); }

    std::optional<Stream> socket{};
    std::string coming{};
    std::deque<Heard> heard{};
  };

  std::atomic<std::uint64_t> bytes_sent_{0};
  Way ways_[PeerSockets::kStreams];
};

}  // namespace pharos::ml
