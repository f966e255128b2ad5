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

/// Reference-counted memory for received frames, shared by the link that reads and the batches of frames that were
/// read. It is not a shared_ptr, because the link must know for certain that no batch uses the memory before it
/// overwrites the memory: shared_ptr::use_count() gives no such guarantee between threads. The memory is freed with its
/// last share. Threads may use different shares at the same time. bytes(), capacity() and unshared() must not be called
/// on an empty one.
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
  /// Returns true if this object is the only one that shares the memory. All reads through other objects have then
  /// happened before.
  bool unshared() const { return memory_->shares.load(std::memory_order_acquire) == 1; }

 private:
  struct Memory {
    explicit Memory(std::size_t size) : bytes{std::make_unique_for_overwrite<std::byte[]>(size)}, capacity{size} {}
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity;
    std::atomic<std::uint32_t> shares = 1;  // a share's end is a release: the reads through it come before unshared()
  };
  Memory* memory_ = nullptr;
};

/// A sequence of whole frames with checked headers. Keeps the memory of the frames alive; cheap to copy. Belongs to one
/// thread at a time.
class FrameBatch {
 public:
  FrameBatch() = default;
  FrameBatch(ReceiveBuffer buffer, std::size_t begin, std::size_t end)
      : buffer_{std::move(buffer)}, at_{begin}, end_{end} {}

  bool empty() const { return at_ == end_; }
  /// Takes the next frame out; an empty batch aborts the process. The view is valid as long as a copy of this batch
  /// exists.
  wire::FrameView next();

 private:
  ReceiveBuffer buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

/// A connection that carries ordered, reliable frames between two processes: over a Unix socket, TCP, or the
/// simulator's network. Created after the handshake by the code that made the connection, and shared by all objects
/// that send. Threads: any thread may call every member. The link calls on_frames() in order and never twice at once.
/// Failure: the first error closes the link, and the handler is told once (kUnavailable if the other process closed the
/// connection or died). Frames that are still queued are lost; a sender that needs answers must itself keep track of
/// unanswered frames.
/// End: close(), or an error. A link that was started may stay open until then even if nobody refers to it, so its user
/// must close it.
/// Bounds: the link queues bytes that the peer has not read; queued() returns their number. Code that sends on a user's
/// behalf must stop when more than kQueuedMax is queued, until Handler::on_room(). The link closes itself at twice
/// kQueuedMax.
class Link {
 public:
  static constexpr std::size_t kQueuedMax = std::size_t{64} << 20;

  /// The receiver of a link's frames and events. Its owner keeps it alive; the link has only a weak reference. The link
  /// calls it on the threads that poll the reactor, and on threads that call the link: resume() may read and call
  /// on_frames(), and flush() and wait_for_room() may call on_room(). Its functions must not throw.
  class Handler {
   public:
    virtual ~Handler() = default;
    /// Called with the frames in their order of arrival, never twice at once. Must be quick: the link reads no more
    /// frames meanwhile. `descriptors` came with these frames, or belong to a frame that has not arrived completely.
    virtual void on_frames(FrameBatch frames, std::vector<Fd> descriptors) = 0;
    /// If this returns false, the link reads no more until resume(). The handler must then call resume() later. Several
    /// threads may ask at once.
    virtual bool wants_more() { return true; }
    /// Called after on_frames(), on the same thread, while other threads may read the next frames. Long work belongs
    /// here.
    virtual void on_idle() {}
    /// Called when the queue has shrunk to kQueuedMax bytes or less, after it was larger. Runs on a thread that writes,
    /// without locks; frames that the handler sends here are written afterwards.
    virtual void on_room() {}
    /// Called once with the error that closed the link. No on_frames() follows, but on_idle() and on_room() may still
    /// run on other threads. Not called if close() came first.
    virtual void on_closed(Error why) = 0;
  };

  virtual ~Link() = default;

  /// Begins to read and to call `handler`, which the link does not keep alive. If the handler is gone when data or the
  /// end of the stream arrives, the link closes itself.
  virtual void start(const std::shared_ptr<Handler>& handler) = 0;
  /// Continues reading after the link stopped to let the handler work, or because wants_more() returned false.
  virtual void resume() = 0;

  /// Queues one frame, which flush() writes. Fills in `header.payload_bytes`. The descriptors travel with the frame's
  /// first byte. Returns false if the link is closed, or about to close because the payload or the queue is too large:
  /// then the handler gets kInvalidArgument or kOverloaded. More than 64 descriptors abort the process.
  virtual bool send(wire::FrameHeader header, std::span<const std::byte> payload, std::vector<Fd> descriptors) = 0;
  bool send(const wire::FrameHeader& header, std::span<const std::byte> payload) { return send(header, payload, {}); }
  /// Writes the queued frames as far as the peer accepts them. The rest is written when the peer has read more.
  virtual void flush() = 0;
  /// The number of bytes that are queued and not written.
  virtual std::size_t queued() const = 0;
  /// Blocks the calling thread until at most `queued_max` bytes are queued, the link is closed, or the deadline has
  /// passed. The thread writes queued frames meanwhile.
  virtual void wait_for_room(std::size_t queued_max, async::Deadline deadline) = 0;
  /// Closes the link from this side, without waiting. Queued frames are lost. Nothing more is sent or delivered, but a
  /// call of the handler that has begun may still run.
  virtual void close() = 0;
  /// Like close(), but also discards bytes that were sent and have not arrived at the peer.
  virtual void drop() = 0;
};

}  // namespace pharos::net
