#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>

#include "scratch_buffer.hpp"

namespace pharos::ml {

/// The chunks that a rank sends and receives for one operation. A StreamOperation owns it, and StreamLoop calls it, all
/// on the backend's thread; only the constructor runs on the thread that begins the operation. It does no I/O:
/// StreamLoop passes on what it sends, and tells it what has come. It cannot fail; place() refuses what does not belong
/// to the operation. The caller's memory stays until ended() or until all operations have failed. The destructor gives
/// the buffer back to `buffers`, which outlives the plan.
///
/// In an all_reduce or broadcast of up to 16 KiB, and in every all_gather, a rank sends its data to all others, and
/// each rank reduces by itself. In larger ones, and in every reduce_scatter, the data has a part for each rank: all
/// ranks send that part to its rank, which reduces it in the order of the ranks and, if all ranks need the result,
/// sends the result to the others. Each byte goes over a rank's network connection as often as in a ring, but after two
/// hops instead of many. Parts are sent in chunks of 512 KiB, so that a rank reduces chunks while others arrive.
class StreamPlan {
 public:
  /// Data to send to a rank in one piece.
  struct Chunk {
    std::uint32_t rank;
    std::uint32_t tag;
    const std::byte* bytes;
    std::size_t size;
  };
  using Send = std::function<void(const Chunk& chunk)>;

  StreamPlan(const Operation& operation, const detail::Places& places, std::uint32_t rank, std::uint32_t ranks,
             ScratchBuffers& buffers);
  StreamPlan(StreamPlan&&) = delete;
  ~StreamPlan();

  bool ended() const { return sends_left_ == 0 && receives_left_ == 0 && begun_left_ == 0; }

  /// `rank` has begun the operation, too: the chunks that wait for it are sent. Called once for each rank for which
  /// is_begun_by() is false.
  void begun_by(std::uint32_t rank, const Send& send);
  bool is_begun_by(std::uint32_t rank) const { return begun_[rank]; }
  /// Returns where a chunk that `from` has begun to send belongs; nullptr if no such chunk is expected. The chunk
  /// counts as begun from then on, so this is called once for each chunk.
  std::byte* place(std::uint32_t from, std::uint32_t tag, std::size_t size);
  /// The whole chunk has come to its place().
  void came(std::uint32_t from, std::uint32_t tag, const Send& send);
  /// A chunk has been sent: its memory may be changed.
  void sent();
  /// Returns a rank that the operation waits for; that rank may itself wait for another one.
  std::optional<std::uint32_t> missing() const;

 private:
  /// The way in which the ranks get the result.
  enum class Way : std::uint8_t {
    kNothing,  ///< There is no data: all ranks only have to begin the operation.
    kWhole,    ///< Each rank sends all its data to all others.
    kOwn,      ///< Each rank sends a piece of its own to each other rank.
    kParts,    ///< Each part goes to its rank, which may send a result to the others.
    kMessage,  ///< One rank sends to another.
  };

  void begin();
  void begin_whole();
  void begin_own();
  void begin_parts();
  void begin_message();
  /// Returns whether `from` sends data of its own (not a result) to `to`.
  bool gives(std::uint32_t from, std::uint32_t to) const;
  bool reduces() const;
  bool passes_on() const;
  bool takes_from(std::uint32_t rank) const;

  std::byte* place_of(std::uint32_t from, std::uint32_t tag, std::size_t size) const;
  bool is_result(std::uint32_t tag) const;
  Part part_of(std::uint32_t rank) const;
  std::uint32_t chunks_of(std::uint32_t rank) const;
  Part chunk_of(std::uint32_t rank, std::uint32_t chunk) const;

  void add(const Chunk& chunk, const Send& send);
  void expect(std::uint32_t from, std::uint64_t chunks);
  void expect_results(std::uint32_t from, std::uint64_t chunks);
  void finish_whole_if_all();
  void finish_chunk(std::uint32_t chunk, const Send& send);

  const Operation operation_;
  const detail::Places places_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  ScratchBuffers& buffers_;
  const std::size_t element_;
  const std::size_t bytes_;  // the size of a rank's data
  Way way_ = Way::kNothing;
  std::vector<bool> begun_;                // by rank
  std::vector<std::vector<Chunk>> due_;    // by rank: chunks to send once that rank has begun
  ScratchBuffer buffer_;                   // the data to reduce that the other ranks send, in the order of the ranks
  std::vector<std::uint32_t> chunk_left_;  // by chunk of this rank's part: how many ranks have still to send it
  /// Numbers of chunks that come from a rank.
  struct Chunks {
    std::uint64_t all = 0;
    std::uint64_t own = 0;  // those with data of the rank's own, for which it waits for no other rank
  };
  std::vector<Chunks> unheard_;    // by rank: chunks that have not begun to come
  std::vector<Chunks> left_from_;  // by rank: chunks that have not come
  std::uint64_t begun_left_;       // ranks that have not begun
  std::uint64_t sends_left_ = 0;
  std::uint64_t receives_left_ = 0;
};

}  // namespace pharos::ml
