#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/object_store/location.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos::actors {

/// A part of a payload that lies in the object store. A payload with such parts (FrameFlags::kInPieces) consists of a
/// list of Pieces and then the payload's own bytes. Each value lies as a whole in one piece, or in the own bytes
/// between two pieces. A value, which keeps no object alive.
struct Piece {
  std::uint64_t offset = 0;         ///< How many of the payload's own bytes come before the piece.
  object_store::Location location;  ///< The object.
  std::uint64_t begin = 0;          ///< Where the piece begins in the object.
  std::uint64_t size = 0;
  std::uint64_t of_ref = 0;  ///< 1 if the piece is the value of a Ref, which need not be read with the payload; else 0.
};

/// Encodes a payload with pieces. `bytes` are its own bytes.
void write_pieces(std::span<const Piece> pieces, std::span<const std::byte> bytes, Encoder& to);

/// A payload with pieces, taken apart. A value; the payload must outlive it.
struct InPieces {
  std::vector<Piece> pieces;         ///< Sorted by offset; no piece is empty.
  std::span<const std::byte> bytes;  ///< The payload's own bytes, which are not copied.
};
/// Takes a payload with pieces apart. kCorrupt if the payload is not of that form.
Result<InPieces> read_pieces(std::span<const std::byte> payload);

}  // namespace pharos::actors
