#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/link.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::net {

/// A control message and the file descriptors that came with it. A value; the descriptors close with it unless they are
/// moved out.
struct Parcel {
  wire::Message message;
  std::vector<Fd> descriptors;
};

/// The process at the other end of a control link. Sends messages and requests to this process, and passes the messages
/// and requests that arrive to an Owner. Made after the handshake; shared by its owner and the requests under way. The
/// executor outlives it.
/// Threads: any thread may call send(), respond() and queued(). request() and close() must run on the executor, and the
/// Owner is called there too. The link calls the members of Handler on its own threads.
/// Both sides number their messages, so that a message which arrives twice is delivered once.
/// Failure: the end of the link, or a malformed message (kCorrupt), ends the peer. Every request under way then fails
/// (with kUnavailable when the other process closed the connection or died), and the owner is told once. Later calls of
/// send() and respond() return false, and later requests fail with kUnavailable.
/// End: close(), or the end of the link. The destructor alone does not close the link.
/// Bounds: while `kUntakenMax` bytes of messages wait for the executor, nothing is read, so that the sender must queue.
class Peer final : public Link::Handler, public std::enable_shared_from_this<Peer> {
 public:
  static constexpr std::size_t kUntakenMax = std::size_t{1} << 20;

  /// The receiver of messages and requests. The Peer keeps a reference to it until close() or on_peer_closed(), so it
  /// must live until then. Its functions must not throw.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// If `request` has a value, the sender expects an answer: pass the value to respond().
    virtual void on_message(Peer& from, Parcel parcel, std::optional<std::uint64_t> request) = 0;
    virtual void on_peer_closed(Peer& peer, const Error& why) = 0;
  };

  /// Makes a Peer. The caller must then start the link with the Peer as its handler.
  static std::shared_ptr<Peer> make(async::Executor& executor, std::shared_ptr<Link> link, Owner& owner);

  /// Sends a message without an answer. Returns false if the link is closed or the message is too large; after true the
  /// message can still be lost with the link. A number of descriptors that does not fit the message aborts the process,
  /// here and below.
  bool send(const wire::Message& message, std::vector<Fd> descriptors = {});
  /// Answers a request. If the answer is too large, sends the error kInvalidArgument instead. Returns false if the link
  /// is closed.
  bool respond(std::uint64_t request, const wire::Message& message, std::vector<Fd> descriptors = {});
  bool respond(std::uint64_t request, Error error) { return respond(request, wire::Failure{std::move(error)}); }

  /// Sends a request and waits for the answer. A wire::Failure of the other process is returned as an error. Other
  /// errors: kInvalidArgument if the message is too large, kDeadlineExceeded, kCancelled, and the error that ended the
  /// link. For these, error().outcome() tells whether the request was sent: kNotStarted or kUnknown. An answer that
  /// comes too late is dropped. The Peer must live until the coroutine has started; the coroutine then keeps it alive.
  async::Async<Result<Parcel>> request(wire::Message message, std::vector<Fd> descriptors, async::Deadline deadline);

  /// Closes the link from this side. Requests under way fail with kUnavailable, and the owner gets no more calls,
  /// on_peer_closed() included.
  void close();

  std::size_t queued() const { return link_->queued(); }

  void on_frames(FrameBatch frames, std::vector<Fd> descriptors) override;
  bool wants_more() override { return untaken_bytes_.load() < kUntakenMax; }
  void on_closed(Error why) override;

 private:
  Peer(async::Executor& executor, std::shared_ptr<Link> link, Owner& owner)
      : executor_{executor}, link_{std::move(link)}, owner_{&owner} {}

  static async::Async<Result<Parcel>> wait_for_response(std::shared_ptr<Peer> peer, std::uint64_t number,
                                                        async::Completion<Parcel> completion, async::Deadline deadline);

  Result<void> send_frame(wire::FrameKind kind, std::uint64_t number, const wire::Message& message,
                          std::vector<Fd> descriptors);
  void take(wire::FrameHeader header, Parcel parcel);
  void end(const Error& why);

  async::Executor& executor_;
  const std::shared_ptr<Link> link_;
  std::atomic<std::size_t> untaken_bytes_ = 0;
  std::mutex told_mutex_;
  std::uint64_t last_told_ = 0;  // messages without an answer have their own sequence of numbers
  std::vector<Fd> unclaimed_;    // descriptors whose frame has not arrived; only the reading thread uses them

  // Only the executor uses the members below.
  Owner* owner_;  // null once closed
  std::uint64_t last_number_ = 0;
  std::uint64_t last_request_heard_ = 0;
  std::uint64_t last_told_heard_ = 0;
  std::unordered_map<std::uint64_t, async::Completion<Parcel>> waiting_;
};

}  // namespace pharos::net
