#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/frame.hpp>

namespace pharos::net {

/// Memory that received frames lie in, shared by the link that reads and the batches that were read. Not a shared_ptr,
/// because the link has to know, and not only to guess, that every batch is done with it before it reads there again.
class ReceiveBuffer {
 public:
  ReceiveBuffer() = default;
  explicit ReceiveBuffer(std::size_t capacity) : memory_{new Memory{capacity}} {}
  ReceiveBuffer(const ReceiveBuffer& other) : memory_{other.memory_} {
    if (memory_ != nullptr) memory_->shares.fetch_add(1, std::memory_order_relaxed);
  }
  ReceiveBuffer(ReceiveBuffer&& other) noexcept : memory_{std::exchange(other.memory_, nullptr)} {}
  ReceiveBuffer& operator=(ReceiveBuffer other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~ReceiveBuffer() {
    if (memory_ != nullptr && memory_->shares.fetch_sub(1, std::memory_order_acq_rel) == 1) delete memory_;
  }

  explicit operator bool() const { return memory_ != nullptr; }
  std::byte* bytes() const { return memory_->bytes.get(); }
  std::size_t capacity() const { return memory_->capacity; }
  /// Nobody else has it, and what others read there has happened before.
  bool unshared() const { return memory_->shares.load(std::memory_order_acquire) == 1; }

 private:
  struct Memory {
    explicit Memory(std::size_t size) : bytes{std::make_unique_for_overwrite<std::byte[]>(size)}, capacity{size} {}
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity;
    std::atomic<std::uint32_t> shares = 1;
  };
  Memory* memory_ = nullptr;
};

/// Whole frames, one after the other, their headers checked. Keeps the memory that they lie in; cheap to copy.
class FrameBatch {
 public:
  FrameBatch() = default;
  FrameBatch(ReceiveBuffer buffer, std::size_t begin, std::size_t end)
      : buffer_{std::move(buffer)}, at_{begin}, end_{end} {}

  bool empty() const { return at_ == end_; }
  /// Takes the next frame; only when not empty. The view is valid as long as a copy of this batch is.
  wire::FrameView next();

 private:
  ReceiveBuffer buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

/// Ordered, reliable frames between two processes: over a Unix socket, TCP, or the simulator's network.
/// Created after the handshake, by whoever made the connection; shared by those who send.
/// Threads: send(), flush() and close() from any; the handler's calls come in order, one at a time.
/// Failure: the first error closes it, and the handler is told once. What was queued then is lost; whoever needs an
/// answer keeps its own account of what is unanswered.
/// Bounds: queues what the peer does not read. queued() says how much; whoever sends on a user's behalf holds back at
/// kQueuedMax until Handler::on_room(), and the link closes itself at twice as much.
class Link {
 public:
  static constexpr std::size_t kQueuedMax = std::size_t{64} << 20;

  class Handler {
   public:
    virtual ~Handler() = default;
    /// In the order of arrival, never two at once. Must be quick: nothing is read meanwhile.
    virtual void on_frames(FrameBatch frames, std::vector<Fd> descriptors) = 0;
    /// False: nothing more is read until resume() is called, which whoever answers so must do.
    virtual bool wants_more() { return true; }
    /// After on_frames, on the same thread, while other threads may read on: the place for what takes long.
    virtual void on_idle() {}
    /// More than kQueuedMax bytes were queued, and now it is no more than that. On a thread that writes, which calls
    /// this without locks and then writes what was sent here.
    virtual void on_room() {}
    /// The last call, unless close() was called here first.
    virtual void on_closed(Error why) = 0;
  };

  virtual ~Link() = default;

  /// Delivers to this handler from now on, and does not keep it alive: when it is gone the link closes itself.
  virtual void start(const std::shared_ptr<Handler>& handler) = 0;
  /// Reads on, where reading stopped to let the handler work or because it wanted no more.
  virtual void resume() = 0;

  /// Queues one frame; `header.payload_bytes` is filled in. False when closed, or about to be because a bound
  /// was reached. The descriptors go with its first byte.
  virtual bool send(wire::FrameHeader header, std::span<const std::byte> payload, std::vector<Fd> descriptors) = 0;
  bool send(const wire::FrameHeader& header, std::span<const std::byte> payload) { return send(header, payload, {}); }
  /// Writes what is queued, as far as the peer takes it; the rest goes when the peer has read.
  virtual void flush() = 0;
  /// Bytes that are queued and not written.
  virtual std::size_t queued() const = 0;
  /// Blocks this thread, which writes meanwhile, until at most so much is queued, the link is closed, or the deadline.
  virtual void wait_for_room(std::size_t queued_max, async::Deadline deadline) = 0;
  /// Ends it from here. Nothing more is sent or delivered, but a handler call that has begun may still run.
  virtual void close() = 0;
  /// As close(); and what has not arrived yet never does.
  virtual void drop() = 0;
};

}  // namespace pharos::net
