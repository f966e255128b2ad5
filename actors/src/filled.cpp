#include "filled.hpp"

#include <pharos/wire/frame.hpp>

#include "carried_actors.hpp"
#include "large_values.hpp"

namespace pharos::detail {

std::optional<Error> Filled::fill(std::span<const std::byte> bytes, const object_store::Object* object,
                                  std::span<const Hole> holes) {
  std::size_t done = 0;
  const auto copy_until = [&](std::size_t until) {
    if (object == nullptr) {
      bytes_.write(bytes.data() + done, until - done);
    } else if (until != done) {
      refer(*object, object->bytes().subspan(done, until - done));
    }
    done = until;
  };
  for (const Hole& hole : holes) {
    copy_until(hole.offset);
    if (hole.what == Hole::kObject) {
      refer(*hole.object, hole.bytes);
    } else if (hole.what == Hole::kOutcome) {
      put(begin_outcome(hole.cell, bytes_), hole.cell);
    } else if (auto missing = put_result(hole)) {
      return missing;
    }
  }
  copy_until(object == nullptr ? bytes.size() : object->bytes().size());
  return std::nullopt;
}

std::optional<Error> Filled::put_result(const Hole& hole) {
  const auto result = hole.cell.wait(Deadline::never());
  if (!result) {
    return Error{result.error()}.with("an argument, the result of another call").with_outcome(Outcome::kNotStarted);
  }
  if (hole.what == Hole::kResult) {
    bytes_.write(result->count.data(), result->count.size());
    put(result->bytes, hole.cell);
  } else if (!hole.convert(hole.cell, *result, bytes_)) {
    return Error{ErrorCode::kCorrupt, "a result that was an argument is none of its type"};
  }
  return std::nullopt;
}

void Filled::put(std::span<const std::byte> bytes, const CellHandle& of) {
  const auto object = bytes.size() < kSharedBytesMin ? nullptr : values_.object_with(bytes);
  if (object != nullptr) {
    refer(*object, bytes);
  } else {
    bytes_.write_shared({std::make_shared<const CellHandle>(of), bytes});
  }
}

void Filled::refer(const object_store::Object& object, std::span<const std::byte> bytes) {
  const auto begin = static_cast<std::size_t>(bytes.data() - object.bytes().data());
  pieces_.push_back({bytes_.size(), object.location(), begin, bytes.size()});
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
