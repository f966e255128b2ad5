#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/object_store/location.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos::actors {

/// What a payload looks like of which parts lie in the object store (FrameFlags::kInPieces): a list of pieces, then the
/// bytes that it has itself. Whole values lie in a piece, or in the bytes between two.
struct Piece {
  std::uint64_t offset = 0;         ///< before this one of the payload's own bytes
  object_store::Location location;  ///< of the object
  std::uint64_t begin = 0;          ///< in the object
  std::uint64_t size = 0;
  std::uint64_t of_ref = 0;  ///< 1: a Ref stands for it, which need not be read
};

void write_pieces(std::span<const Piece> pieces, std::span<const std::byte> bytes, Encoder& to);

struct InPieces {
  std::vector<Piece> pieces;         ///< none of them empty, by offset
  std::span<const std::byte> bytes;  ///< of the payload
};
/// kCorrupt when the payload does not look like that.
Result<InPieces> read_pieces(std::span<const std::byte> payload);

}  // namespace pharos::actors
