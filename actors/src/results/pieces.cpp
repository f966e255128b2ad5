#include "results/pieces.hpp"

#include <cstring>
#include <type_traits>

namespace pharos::actors {

static_assert(sizeof(Piece) == 72 && std::is_trivially_copyable_v<Piece>);

void write_pieces(std::span<const Piece> pieces, std::span<const std::byte> bytes, Encoder& to) {
  const std::uint64_t count = pieces.size();
  to.write(&count, sizeof count);
  to.write(pieces.data(), pieces.size_bytes());
  to.write(bytes.data(), bytes.size());
}

Result<InPieces> read_pieces(std::span<const std::byte> payload) {
  const auto corrupt = [] { return Error{ErrorCode::kCorrupt, "received a malformed list of objects"}; };
  std::uint64_t count = 0;
  if (payload.size() < sizeof count) return corrupt();
  std::memcpy(&count, payload.data(), sizeof count);
  payload = payload.subspan(sizeof count);
  if (count > payload.size() / sizeof(Piece)) return corrupt();
  InPieces read;
  read.pieces.resize(count);
  if (count != 0) std::memcpy(read.pieces.data(), payload.data(), count * sizeof(Piece));
  read.bytes = payload.subspan(count * sizeof(Piece));
  std::uint64_t before = 0;
  for (const Piece& piece : read.pieces) {
    if (piece.offset < before || piece.offset > read.bytes.size() || piece.size == 0) return corrupt();
    before = piece.offset;
  }
  return read;
}

}  // namespace pharos::actors
