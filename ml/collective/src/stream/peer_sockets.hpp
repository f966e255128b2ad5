#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "stream/connections.hpp"
#include "stream/pace.hpp"
#include "stream/stream.hpp"

namespace pharos::ml {

/// This rank's connections to all other ranks: sends what is queued, and gives what comes to a receiver. Owned by
/// StreamBackend. One thread, except where a function says more. The receivers, and the functions `sent`, run on that
/// thread, inside of the functions that read or write. A `rank` is another rank. The destructor closes the connections
/// and drops what is queued: `sent` is then not called.
class PeerSockets {
 public:
  static constexpr std::uint32_t kStreams = 2;  ///< connections between two ranks

  /// A rank whose connection has failed or has ended.
  struct Lost {
    std::uint32_t rank;
    Error why;
  };
  /// Makes the receiver of what comes from a rank by one of its connections.
  using MakeReceiver = std::function<std::unique_ptr<Stream::Receiver>(std::uint32_t rank, std::uint32_t stream)>;

  /// `connections` has kStreams sockets of each other rank. `bytes_per_second` bounds what is sent; 0: no limit.
  PeerSockets(Connections connections, std::uint64_t bytes_per_second);
  PeerSockets(PeerSockets&&) = delete;
  ~PeerSockets();

  /// Called once, before the other functions. Fails with the error of errno, also if the constructor could make no
  /// eventfd or epoll.
  Result<void> start(const MakeReceiver& make_receiver);
  /// Makes serve() return. On any thread.
  void wake() const;
  /// The bytes that have been sent so far. On any thread.
  std::uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

  bool is_open(std::uint32_t rank, std::uint32_t stream) const;
  /// Queues a message; drops it if the connection is closed. `sent` is called when `bytes` have been sent and may be
  /// changed.
  void send(std::uint32_t rank, std::uint32_t stream, const StreamMessage& message, const std::byte* bytes = nullptr,
            std::function<void()> sent = {});
  void send_to_all(const StreamMessage& message);
  /// Drops what is queued, except a message of which a part has been sent, and queues this text for all ranks instead.
  /// The `sent` of a dropped message is not called.
  void send_only(const StreamMessage& message, const std::string& text);
  /// Nothing more comes by this connection, so its end is no failure.
  void expect_end(std::uint32_t rank, std::uint32_t stream);
  bool expects_end(std::uint32_t rank, std::uint32_t stream) const;

  /// Sends what is queued, as far as possible without waiting. Returns the first rank whose connection fails; the
  /// connection stays as it is.
  std::optional<Lost> write_all();
  /// Waits until something comes, until wake(), or until `when`; then reads what has come, while `goes_on` returns
  /// true. Returns the first rank whose connection fails or ends, or whose messages the receiver refuses. A connection
  /// whose end is expected is closed instead.
  std::optional<Lost> serve(std::optional<TimePoint> when, const std::function<bool()>& goes_on);
  /// Sends what is queued, as far as the other ranks take it in 200 ms, and closes the connections. What comes
  /// meanwhile is dropped. `bytes_per_second` does not count here.
  void say_farewell();

 private:
  struct Peer;

  std::optional<Lost> write_some(std::uint32_t rank, std::uint32_t stream);
  std::optional<Lost> read_some(std::uint32_t rank, std::uint32_t stream);
  int milliseconds_until(std::optional<TimePoint> when);
  template <class F>
  void for_streams(const F& f);

  std::atomic<std::uint64_t> bytes_sent_{0};
  const Fd wake_;
  const Fd events_;
  const int why_not_made_;                    // errno; 0 if both were made
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this rank
  Pace pace_;
  std::uint32_t first_to_write_ = 0;
};

}  // namespace pharos::ml
