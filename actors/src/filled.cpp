#include "filled.hpp"

#include <pharos/wire/frame.hpp>

#include "carried_actors.hpp"
#include "result_cell.hpp"

namespace pharos::detail {

std::optional<Error> Filled::fill(std::span<const std::byte> bytes, const object_store::Object* object,
                                  std::span<const Hole> holes) {
  std::size_t done = 0;
  const auto copy_until = [&](std::size_t until) {
    if (object == nullptr) {
      bytes_.write(bytes.data() + done, until - done);
    } else if (until != done) {
      put_object(*object, done, until - done);
    }
    done = until;
  };
  for (const Hole& hole : holes) {
    copy_until(hole.offset);
    if (hole.object != nullptr) {
      put_object(*hole.object, static_cast<std::size_t>(hole.stored.data() - hole.object->bytes().data()),
                 hole.stored.size());
      continue;
    }
    if (hole.splice == nullptr) {
      put_outcome(hole.cell);
      continue;
    }
    const auto result = hole.cell.wait(Deadline::never());
    if (!result) {
      return Error{result.error()}.with("an argument, the result of another call").with_outcome(Outcome::kNotStarted);
    }
    if (const auto stored = hole.cell->object(); stored != nullptr && hole.as_it_is) {
      put_object(*stored, 0, stored->bytes().size());
    } else if (!hole.splice(hole.cell, *result, bytes_)) {
      return Error{ErrorCode::kCorrupt, "a result that was an argument is none of its type"};
    }
  }
  copy_until(object == nullptr ? bytes.size() : object->bytes().size());
  return std::nullopt;
}

void Filled::put_outcome(const CellHandle& cell) {
  const auto stored = cell->object();
  if (stored == nullptr) return encode_outcome(cell, bytes_);
  Codec<bool>::encode(true, bytes_);
  actors::write_carried(cell->actors(), bytes_);
  encode_count(stored->bytes().size(), bytes_);
  put_object(*stored, 0, stored->bytes().size());
}

void Filled::put_object(const object_store::Object& object, std::size_t begin, std::size_t size) {
  pieces_.push_back({bytes_.size(), object.location(), begin, size});
}

const Encoder& Filled::payload(std::uint8_t& flags) {
  if (pieces_.empty()) return bytes_;
  flags |= wire::kInPieces;
  if (!bytes_.has_shared()) {
    actors::write_pieces(pieces_, bytes_.bytes(), with_pieces_);
  } else {
    actors::write_pieces(pieces_, bytes_.flattened(), with_pieces_);
  }
  return with_pieces_;
}

}  // namespace pharos::detail
