#include "caller/argument_filler.hpp"

#include <pharos/actors/exceptions.hpp>
#include <pharos/wire/frame.hpp>

#include "caller/sent_values.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"

namespace pharos::detail {

std::optional<Error> ArgumentFiller::fill(std::span<const std::byte> bytes, const object_store::Object* object,
                                          std::span<const Placeholder> placeholders) {
  std::size_t done = 0;
  const auto copy_until = [&](std::size_t until) {
    if (object == nullptr) {
      bytes_.write(bytes.data() + done, until - done);
    } else if (until != done) {
      refer(*object, done, until - done);
    }
    done = until;
  };
  for (const Placeholder& placeholder : placeholders) {
    copy_until(placeholder.offset);
    if (placeholder.what == Placeholder::kObject) {
      refer(*placeholder.object, placeholder.begin, placeholder.size);
    } else if (placeholder.what == Placeholder::kOutcome) {
      put_outcome(placeholder.cell);
    } else if (auto missing = put_result(placeholder)) {
      return missing;
    }
  }
  copy_until(object == nullptr ? bytes.size() : object->size());
  return std::nullopt;
}

bool ArgumentFiller::reads(const Placeholder& placeholder) {
  const auto* const stored = placeholder.cell->stored();
  if (stored == nullptr) return false;
  return placeholder.what == Placeholder::kConverted ||
         (placeholder.what == Placeholder::kOutcome && stored->size < kSharedBytesMin);
}

void ArgumentFiller::put_outcome(const CellHandle& cell) {
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

std::optional<Error> ArgumentFiller::put_result(const Placeholder& placeholder) {
  const auto* const stored = placeholder.cell->stored();
  if (stored != nullptr && placeholder.what == Placeholder::kResult) {
    if (const auto count = placeholder.cell->count()) Codec<std::uint64_t>::encode(*count, bytes_);
    refer(*stored->object, stored->begin, stored->size);
    return std::nullopt;
  }
  const auto result = placeholder.cell.wait(Deadline::never());
  if (!result) {
    return Error{result.error()}
        .with("an argument that is the result of another call")
        .with_outcome(Outcome::kNotStarted);
  }
  if (placeholder.what == Placeholder::kResult) {
    bytes_.write(result->count.data(), result->count.size());
    put(result->bytes, placeholder.cell);
  } else {
    return convert(placeholder, *result);
  }
  return std::nullopt;
}

// A conversion, and the codec of a user's type, are the user's code.
std::optional<Error> ArgumentFiller::convert(const Placeholder& placeholder, const Encoded& result) {
  try {
    if (placeholder.convert(placeholder.cell, result, bytes_)) return std::nullopt;
  } catch (...) {
    return current_exception()
        .with("converting an argument that is the result of another call")
        .with_outcome(Outcome::kNotStarted);
  }
  return Error{ErrorCode::kCorrupt,
               "an argument that is the result of another call cannot be decoded as that call's type"};
}

// The result is no object of the store, but its bytes may be a part of one.
void ArgumentFiller::put(std::span<const std::byte> bytes, const CellHandle& of) {
  const auto object = bytes.size() < kSharedBytesMin ? nullptr : values_.object_with(bytes);
  if (object != nullptr) {
    refer(*object, object->offset_of(bytes), bytes.size());
  } else {
    bytes_.write_shared({std::make_shared<const CellHandle>(of), bytes});
  }
}

void ArgumentFiller::refer(const object_store::Object& object, std::size_t begin, std::size_t size, bool of_ref) {
  if (size != 0) pieces_.push_back({bytes_.size(), object.location(), begin, size, of_ref ? 1U : 0U});
}

const Encoder& ArgumentFiller::payload(std::uint8_t& flags) {
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
