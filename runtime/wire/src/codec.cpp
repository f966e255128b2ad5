#include <algorithm>
#include <cstring>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/check.hpp>
#include <pharos/wire/decoder.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos {
namespace {

constexpr std::size_t kCapacityMin = 256;

}  // namespace

std::string_view to_string(CodecFailure failure) {
  switch (failure) {
    case CodecFailure::kNone: return "no failure";
    case CodecFailure::kTruncated: return "the bytes end before the value does";
    case CodecFailure::kInvalid: return "a part of the bytes is not a valid value of its type";
    case CodecFailure::kTooDeep: return "values are nested more than 256 deep; send a long list as a vector";
    case CodecFailure::kNoRoom: return "there is no memory for the value";
    case CodecFailure::kChanged:
      return "the value changed while it was encoded, or its Codec does not write the same bytes each time";
  }
  return "unknown failure";
}
static_assert(kNestingMax == 256, "the text above says so");

Bytes::Bytes(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  bytes_ = *owner;
  owner_ = std::move(owner);
}

Bytes::Bytes(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  bytes_ = std::as_bytes(std::span{*owner});
  owner_ = std::move(owner);
}

Bytes Bytes::copy_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  std::shared_ptr<std::byte[]> copy{new std::byte[bytes.size()]};  // make_shared would set all bytes to zero first
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> copied{copy.get(), bytes.size()};
  return {std::move(copy), copied};
}

bool operator==(const Bytes& a, const Bytes& b) {
  return std::equal(a.bytes_.begin(), a.bytes_.end(), b.bytes_.begin(), b.bytes_.end());
}

EncodedTooLarge::EncodedTooLarge(std::size_t bytes)
    : std::length_error{"a value of " + to_string(ByteCount{bytes}) +
                        " cannot be encoded; the limit for one value is " + to_string(ByteCount{kEncodedBytesMax})} {}

// Returns false if the bytes must not be written: they are only counted in the first pass of a large value, or they do
// not fit into the room because the value has changed.
bool Encoder::enlarge(std::size_t count) {
  if (in_room_) {
    fail(CodecFailure::kChanged);
    return false;
  }
  if (room_ != nullptr && size_ + count > kInlineBytesMax) {
    elsewhere_ += count;
    longest_ = std::max(longest_, count);
    return false;
  }
  if (count > kEncodedBytesMax - size_) throw EncodedTooLarge{size_ + count};
  const std::size_t capacity =
      std::max<std::size_t>({size_ + count, std::min(capacity_ * 2, kEncodedBytesMax), kCapacityMin});
  auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
  if (size_ != 0) std::memcpy(larger.get(), begin_, size_);
  storage_ = std::move(larger);
  begin_ = storage_.get();
  storage_bytes_ = capacity_ = capacity;
  return true;
}

bool Encoder::enter_room() {
  if (room_ == nullptr || failed()) return false;
  if (in_room_) {
    if (size_ != capacity_) fail(CodecFailure::kChanged);
    return false;
  }
  const std::size_t bytes = size();
  std::byte* const room = room_->make(bytes, longest_);
  if (room == nullptr) {
    fail(CodecFailure::kNoRoom);
    return false;
  }
  clear();
  begin_ = room;
  capacity_ = bytes;
  in_room_ = true;
  return true;
}

void Encoder::add_shared(const Bytes& bytes) {
  if (room_ != nullptr && room_->has(bytes, size())) return;
  if (in_room_) return write(bytes.data(), bytes.size());
  shared_.push_back({size_, bytes});
  elsewhere_ += bytes.size();
  longest_ = std::max(longest_, bytes.size());
}

void Encoder::come_back() {
  shared_.clear();
  elsewhere_ = 0;
  longest_ = 0;
  begin_ = storage_.get();
  capacity_ = storage_bytes_;
  in_room_ = false;
}

void Encoder::refuse_bytes() const {
  PHAROS_CHECK(shared_.empty(), shared_.size());
  std::abort();
}

std::vector<Encoder::Segment> Encoder::segments() const {
  std::vector<Segment> segments;
  segments.reserve(2 * shared_.size() + 1);
  std::size_t done = 0;
  const auto add_own = [&](std::size_t until) {
    if (until != done) segments.push_back({{begin_ + done, until - done}, nullptr});
    done = until;
  };
  for (const Shared& shared : shared_) {
    add_own(shared.at);
    segments.push_back({shared.bytes.span(), &shared.bytes});
  }
  add_own(size_);
  return segments;
}

void Encoder::gather_to(std::byte* to) const {
  for (const Segment& segment : segments()) {
    std::memcpy(to, segment.bytes.data(), segment.bytes.size());
    to += segment.bytes.size();
  }
}

std::vector<std::byte> Encoder::flattened() const {
  std::vector<std::byte> all(size());
  copy_to(all.data());
  return all;
}

std::span<const std::byte> Decoder::take_next(std::size_t count) {
  if (!bytes_.empty() || parts_.empty()) {
    fail(CodecFailure::kTruncated);
    return {};
  }
  bytes_ = parts_.front().bytes;
  owner_ = parts_.front().owner;
  parts_ = parts_.subspan(1);
  in_parts_ -= bytes_.size();
  return take(count);
}

Bytes Decoder::take_shared(std::size_t count) {
  const auto taken = take(count);
  if (owner_ == nullptr || taken.size() < kSharedBytesMin) return Bytes::copy_of(taken);
  return {owner_, taken};
}

}  // namespace pharos
