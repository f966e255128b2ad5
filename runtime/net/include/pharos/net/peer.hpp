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

/// A control message and the descriptors that came beside it.
struct Parcel {
  wire::Message message;
  std::vector<Fd> descriptors;
};

/// The process at the other end of a control link: sends it messages and requests, and gives those that it sends to an
/// owner. Made after the handshake; shared between its owner and requests under way.
/// Threads: send() and respond() from any; everything else, and all that the owner is told, on the executor.
/// What comes twice is taken once: both sides number what they send.
/// Failure: the link's end, or a message that makes no sense, ends it: every request under way fails with kUnavailable
/// and the owner is told once.
/// Bounds: while `kUntakenMax` bytes of messages wait for the executor nothing is read, so that the sender queues.
class Peer final : public Link::Handler, public std::enable_shared_from_this<Peer> {
 public:
  static constexpr std::size_t kUntakenMax = std::size_t{1} << 20;

  /// Outlives the Peer, or calls close() before it goes.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// `request` is what to give to respond(), if an answer is expected.
    virtual void on_message(Peer& from, Parcel parcel, std::optional<std::uint64_t> request) = 0;
    virtual void on_peer_closed(Peer& peer, const Error& why) = 0;
  };

  /// The link must be started with the Peer as its handler by whoever calls this.
  static std::shared_ptr<Peer> make(async::Executor& executor, std::shared_ptr<Link> link, Owner& owner);

  bool send(const wire::Message& message, std::vector<Fd> descriptors = {});
  bool respond(std::uint64_t request, const wire::Message& message, std::vector<Fd> descriptors = {});
  bool respond(std::uint64_t request, Error error) { return respond(request, wire::Failure{std::move(error)}); }

  /// The answer; the peer's Failure as an error.
  async::Async<Result<Parcel>> request(wire::Message message, std::vector<Fd> descriptors, async::Deadline deadline);

  /// Ends it from here: requests fail, the owner hears nothing more.
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
  std::mutex told_mutex_;
  std::uint64_t last_told_ = 0;  // what asks for no answer has numbers of its own
  std::atomic<std::size_t> untaken_bytes_ = 0;
  std::vector<Fd> unclaimed_;  // the reading thread's: descriptors whose frame has not come

  // The executor's.
  Owner* owner_;  // null once closed
  std::uint64_t last_number_ = 0;
  std::uint64_t last_request_heard_ = 0;
  std::uint64_t last_told_heard_ = 0;
  std::unordered_map<std::uint64_t, async::Completion<Parcel>> waiting_;
};

}  // namespace pharos::net
