#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/location.hpp>

/// How an object is sent from one node's store to another's: over a stream that carries nothing else, in chunks,
/// straight from memory to memory. Each chunk has a checksum, which is computed and checked while the chunk is in a
/// core's cache. A node that has received a chunk may pass it on before the object is complete. A node whose stream
/// breaks asks another node for the missing chunks.
///
///   receiver                     sender
///   PullRequest: which object      ->
///                           <-   Offered: the size, or another node to ask instead, or why there is no object
///   Missing: bit per chunk  ->
///                           <-   Chunk and its bytes, in their order, until all missing chunks are sent
///
/// Both sides block, but every wait has a limit. They run on threads of node/src/store/transfers. After a function has
/// failed, its stream must not be used any more.
namespace pharos::object_store {

inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

/// A connection to another node that delivers bytes in order. One thread sends and one thread receives. Implemented and
/// owned by Transfers, for one transfer. The destructor closes the connection.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Sends all of `head` and then all of `body`. Returns kUnavailable if the stream has ended, or if nothing has moved
  /// for a while.
  virtual Result<void> send(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  Result<void> send(std::span<const std::byte> bytes) { return send(bytes, {}); }
  /// Receives as many bytes as there is room for. Fails as send() does; some bytes may have come then.
  virtual Result<void> receive(std::span<std::byte> bytes) = 0;
};

/// The chunks of one object that have arrived at this node. Shared by one thread that receives chunks and by threads
/// that pass them on, all of which keep it alive. The memory stays valid as long as `owner` lives, which Chunks holds;
/// if `owner` is null, the caller keeps the memory valid.
class Chunks {
 public:
  /// For an object that is complete.
  static std::shared_ptr<Chunks> all_of(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// For an object that will be received into this memory.
  static std::shared_ptr<Chunks> none_of(std::span<std::byte> memory, std::shared_ptr<const void> owner = {});

  std::size_t size() const { return bytes_.size(); }
  std::size_t count() const { return (bytes_.size() + kChunkBytes - 1) / kChunkBytes; }
  std::span<const std::byte> chunk(std::size_t i) const;

  // For the thread that receives. Not for an object that is complete, except has(), which is true for each of its
  // chunks.
  std::span<std::byte> room_for(std::size_t i) const;
  bool has(std::size_t i) const { return sums_.empty() || here_[i].load(std::memory_order_acquire); }
  /// Wakes the threads that wait for this chunk. Once for each chunk.
  void arrived(std::size_t i, std::uint64_t checksum);
  /// Says that no more chunks will arrive. Threads that wait for a missing chunk, now or later, get `why`. Chunks that
  /// have arrived stay valid. Any thread.
  void give_up(Error why);
  /// How many chunks have arrived; 0 for an object that is complete. Any thread.
  std::size_t arrived() const { return arrived_.load(std::memory_order_relaxed); }

  // For the threads that pass chunks on.
  /// Waits until the chunk has arrived and returns its checksum. Returns kUnavailable after `patience`, or the reason
  /// that give_up() was given.
  Result<std::uint64_t> checksum_of_chunk(std::size_t i, Duration patience);

 private:
  Chunks(std::span<const std::byte> bytes, std::span<std::byte> memory, std::shared_ptr<const void> owner);

  const std::span<const std::byte> bytes_;
  const std::span<std::byte> memory_;  // empty if the object is complete
  const std::shared_ptr<const void> owner_;
  std::unique_ptr<std::atomic<bool>[]> here_;  // true publishes the bytes of the chunk, and its checksum
  std::vector<std::uint64_t> sums_;
  std::atomic<std::size_t> arrived_ = 0;  // for reports; publishes nothing

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> why_given_up_;
};

/// A request of a node for an object of another node.
struct PullRequest {
  Location object;
  NodeId from;  ///< the node that wants the object
  /// The sender must send the object itself, and not name another node.
  bool insists = false;
};

/// Receives the request of another node. Returns kCorrupt if the bytes are not a PullRequest, else the error of the
/// stream.
Result<PullRequest> receive_pull_request(Stream& from);
/// Offers the object, and sends the chunks that the receiver misses. Waits up to 10 s for each chunk that has not
/// arrived here yet. On failure (the error of the stream or of Chunks::checksum_of_chunk()) the receiver is not told:
/// the caller closes the stream.
Result<void> send_chunks(Stream& to, Chunks& chunks);
/// Answers with another node that the receiver should ask instead. A failure to send is ignored, here and in refuse().
void send_on(Stream& to, NodeId instead);
/// Answers with the reason why there is no object: the code and up to 1000 bytes of the message.
void refuse(Stream& to, const Error& why);

/// Asks for an object of `size` bytes. Returns nullopt if the sender offers the object, or the node to ask instead.
/// After an offer, receive_chunks() must follow. Returns kOwnerDied or kObjectLost if the object does not exist any
/// more, kUnavailable for other refusals and a broken stream, and kCorrupt for another size or an answer that makes no
/// sense.
Result<std::optional<NodeId>> ask_for(Stream& from, const PullRequest& request, std::uint64_t size);
/// Receives the missing chunks. Returns kCorrupt for a damaged chunk or one that was not missing, else the error of the
/// stream. Chunks that have arrived stay valid even if this fails; the caller decides whether to give_up() the others.
Result<void> receive_chunks(Stream& from, Chunks& chunks);

}  // namespace pharos::object_store
