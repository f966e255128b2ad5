#include "caller/filled.hpp"

#include <pharos/wire/frame.hpp>

#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"

namespace pharos::detail {

std::optional<Error> Filled::fill(std::span<const std::byte> bytes, const object_store::Object* object,
                                  std::span<const Hole> holes) {
  std::size_t done = 0;
  const auto copy_until = [&](std::size_t until) {
    if (object == nullptr) {
      bytes_.write(bytes.data() + done, until - done);
    } else if (until != done) {
      refer(*object, done, until - done);
    }
    done = until;
  };
  for (const Hole& hole : holes) {
    copy_until(hole.offset);
    if (hole.what == Hole::kObject) {
      refer(*hole.object, hole.begin, hole.size);
    } else if (hole.what == Hole::kOutcome) {
      put_outcome(hole.cell);
    } else if (auto missing = put_result(hole)) {
      return missing;
    }
  }
  copy_until(object == nullptr ? bytes.size() : object->size());
  return std::nullopt;
}

bool Filled::reads(const Hole& hole) {
  const auto* const stored = hole.cell->stored();
  if (stored == nullptr) return false;
  return hole.what == Hole::kConverted || (hole.what == Hole::kOutcome && stored->size < kSharedBytesMin);
}

void Filled::put_outcome(const CellHandle& cell) {
  if (cell->error() != nullptr) return encode_failed_outcome(*cell->error(), bytes_);
  if (const auto* const stored = cell->stored(); stored != nullptr && stored->size >= kSharedBytesMin) {
    begin_outcome(cell, stored->size, bytes_);
    return refer(*stored->object, stored->begin, stored->size, true);
  }
  const auto value = cell.wait(Deadline::never());
  if (!value) return encode_failed_outcome(value.error(), bytes_);
  begin_outcome(cell, value->bytes.size(), bytes_);
  put(value->bytes, cell);
}

std::optional<Error> Filled::put_result(const Hole& hole) {
  const auto* const stored = hole.cell->stored();
  if (stored != nullptr && hole.what == Hole::kResult) {
    if (const auto count = hole.cell->count()) Codec<std::uint64_t>::encode(*count, bytes_);
    refer(*stored->object, stored->begin, stored->size);
    return std::nullopt;
  }
  const auto result = hole.cell.wait(Deadline::never());
  if (!result) {
    return Error{result.error()}
        .with("an argument that is the result of another call")
        .with_outcome(Outcome::kNotStarted);
  }
  if (hole.what == Hole::kResult) {
    bytes_.write(result->count.data(), result->count.size());
    put(result->bytes, hole.cell);
  } else if (!hole.convert(hole.cell, *result, bytes_)) {
    return Error{ErrorCode::kCorrupt,
                 "an argument that is the result of another call cannot be decoded as that call's type"};
  }
  return std::nullopt;
}

// The result is no object of the store, but its bytes may be a part of one.
void Filled::put(std::span<const std::byte> bytes, const CellHandle& of) {
  const auto object = bytes.size() < kSharedBytesMin ? nullptr : values_.object_with(bytes);
  if (object != nullptr) {
    refer(*object, object->offset_of(bytes), bytes.size());
  } else {
    bytes_.write_shared({std::make_shared<const CellHandle>(of), bytes});
  }
}

void Filled::refer(const object_store::Object& object, std::size_t begin, std::size_t size, bool of_ref) {
  if (size != 0) pieces_.push_back({bytes_.size(), object.location(), begin, size, of_ref ? 1U : 0U});
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
