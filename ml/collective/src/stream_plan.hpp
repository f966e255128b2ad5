#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>

#include "backend.hpp"
#include "room.hpp"

namespace pharos::ml {

/// What a rank sends and receives for an operation. One thread.
///
/// Little: each rank sends what it has to all others, and reduces by itself. More: the data has a part for each rank,
/// which all send to that rank; it reduces them in the order of the ranks, and, where all are to have it, sends the
/// result to the others. Each byte goes over a rank's line as often as in a ring, after two hops instead of many. Parts
/// go in chunks, so that chunks are reduced while others come.
class StreamPlan {
 public:
  /// A chunk that is to go to a rank.
  struct Chunk {
    std::uint32_t rank;
    std::uint32_t tag;
    const std::byte* bytes;
    std::size_t size;
  };
  using Send = std::function<void(const Chunk& chunk)>;

  StreamPlan(const Operation& operation, const detail::Places& places, std::uint32_t rank, std::uint32_t ranks,
             Rooms& rooms);
  StreamPlan(StreamPlan&&) = delete;
  ~StreamPlan();

  bool ended() const { return sends_left_ == 0 && receives_left_ == 0 && begun_left_ == 0; }

  /// That rank has begun it, too: what can go to it goes.
  void begun_by(std::uint32_t rank, const Send& send);
  bool is_begun_by(std::uint32_t rank) const { return begun_[rank]; }
  /// Where a chunk from that rank goes, which is coming now; nothing: there is no such chunk, or no more of them.
  std::byte* place(std::uint32_t from, std::uint32_t tag, std::size_t size);
  void came(std::uint32_t from, std::uint32_t tag, const Send& send);
  void sent();
  /// A rank that it waits for, which may wait for another itself.
  std::optional<std::uint32_t> missing() const;

 private:
  /// How the ranks come to the result.
  enum class Way : std::uint8_t {
    kNothing,  ///< to meet is all
    kWhole,    ///< each sends the same to all
    kOwn,      ///< each sends each something of its own
    kParts,    ///< to the rank whose part it is
    kMessage,  ///< one sends to another
  };

  void begin();
  void begin_whole();
  void begin_own();
  void begin_parts();
  void begin_message();
  /// Who sends to rank `to` in the beginning.
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
  Rooms& rooms_;
  const std::size_t element_;
  const std::size_t bytes_;  // that a rank gives
  Way way_ = Way::kNothing;
  std::vector<bool> begun_;                // by rank
  std::vector<std::vector<Chunk>> due_;    // by rank: what goes as soon as it has begun
  Room room_;                              // what others give of this rank's part, one behind the other
  std::vector<std::uint32_t> chunk_left_;  // of this rank's part: how many ranks have not given it yet
  /// Chunks of a rank.
  struct Chunks {
    std::uint64_t all = 0;
    std::uint64_t own = 0;  // of these, those that the rank has by itself
  };
  std::vector<Chunks> unheard_;    // by rank: have not begun to come
  std::vector<Chunks> left_from_;  // by rank: have not come
  std::uint64_t begun_left_;
  std::uint64_t sends_left_ = 0;
  std::uint64_t receives_left_ = 0;
};

}  // namespace pharos::ml
