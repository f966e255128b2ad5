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

/// How an object goes from one node's store to another's: over a stream that carries nothing else, in chunks, straight
/// from memory to memory. Each chunk has a checksum, computed and checked while it is in a core's cache. Whoever has
/// received a chunk may pass it on before the object is complete; whose stream breaks asks another node for what is
/// missing.
///
///   receiver                     sender
///   Wish: which object      ->
///                           <-   Offered: its size, or which node has time for that, or why not
///   Missing: a bit a chunk  ->
///                           <-   Chunk and its bytes, in their order, until all that were missing are sent
///
/// Both sides block; every wait ends.
namespace pharos::object_store {

inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

/// Bytes to and from another node, in order. One thread sends, one receives.
class Stream {
 public:
  virtual ~Stream() = default;
  /// One behind the other, all of it. kUnavailable when the stream has ended, or nothing has moved for a while.
  virtual Result<void> send(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  Result<void> send(std::span<const std::byte> bytes) { return send(bytes, {}); }
  virtual Result<void> receive(std::span<std::byte> bytes) = 0;
};

/// The chunks of an object that are here. Shared by the thread that receives them and those that pass them on.
class Chunks {
 public:
  /// Of one that is complete.
  static std::shared_ptr<Chunks> all_of(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// Of one that is on its way to this memory.
  static std::shared_ptr<Chunks> none_of(std::span<std::byte> memory, std::shared_ptr<const void> owner = {});

  std::size_t size() const { return bytes_.size(); }
  std::size_t count() const { return (bytes_.size() + kChunkBytes - 1) / kChunkBytes; }
  std::span<const std::byte> chunk(std::size_t i) const;

  // Who receives.
  std::span<std::byte> room_for(std::size_t i) const;
  bool has(std::size_t i) const { return sums_.empty() || here_[i].load(std::memory_order_acquire); }
  void arrived(std::size_t i, std::uint64_t checksum);
  /// Nobody brings the rest: who waits for it is told so.
  void give_up(Error why);
  std::size_t arrived() const { return arrived_.load(std::memory_order_relaxed); }

  // Who passes on.
  /// Once the chunk is here; its checksum. kUnavailable: it does not come.
  Result<std::uint64_t> checksum_of_chunk(std::size_t i, Duration patience);

 private:
  Chunks(std::span<const std::byte> bytes, std::span<std::byte> memory, std::shared_ptr<const void> owner);

  const std::span<const std::byte> bytes_;
  const std::span<std::byte> memory_;  // empty: it is complete
  const std::shared_ptr<const void> owner_;
  std::unique_ptr<std::atomic<bool>[]> here_;
  std::vector<std::uint64_t> sums_;
  std::atomic<std::size_t> arrived_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> why_given_up_;
};

/// An object that a node wants of another.
struct Wish {
  Location object;
  NodeId from;           ///< who wants it
  bool insists = false;  ///< on getting it from there
};

/// What is wanted, for whoever finds the object. kCorrupt when it makes no sense.
Result<Wish> receive_wish(Stream& from);
/// Sends what the receiver misses of it.
Result<void> send_chunks(Stream& to, Chunks& chunks);
/// Says who is to be asked instead.
void send_on(Stream& to, NodeId instead);
/// Says why there is nothing.
void refuse(Stream& to, const Error& why);

/// Asks for an object. None: it is offered, in this size; else which node is to be asked instead.
Result<std::optional<NodeId>> ask_for(Stream& from, const Wish& wish, std::uint64_t size);
/// Receives what is missing. What has arrived stays, whether this fails or not.
Result<void> receive_chunks(Stream& from, Chunks& chunks);

}  // namespace pharos::object_store
