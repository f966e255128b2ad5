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
    case CodecFailure::kInvalid: return "a part of it is no value of its type";
    case CodecFailure::kTooDeep: return "values lie in each other more than 256 deep; a long list travels as a vector";
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
  std::shared_ptr<std::byte[]> copy{new std::byte[bytes.size()]};  // not zeroed first
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> copied{copy.get(), bytes.size()};
  return {std::move(copy), copied};
}

bool operator==(const Bytes& a, const Bytes& b) {
  return std::equal(a.bytes_.begin(), a.bytes_.end(), b.bytes_.begin(), b.bytes_.end());
}

EncodedTooLarge::EncodedTooLarge(std::size_t bytes)
    : std::length_error{"a value of " + to_string(ByteCount{bytes}) + " cannot travel; at most " +
                        to_string(ByteCount{kEncodedBytesMax}) + " are encoded at all"} {}

void Encoder::enlarge(std::size_t count) {
  if (count > kEncodedBytesMax - size_) throw EncodedTooLarge{size_ + count};
  const std::size_t capacity =
      std::max<std::size_t>({size_ + count, std::min(capacity_ * 2, kEncodedBytesMax), kCapacityMin});
  auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
  if (size_ != 0) std::memcpy(larger.get(), storage_.get(), size_);
  storage_ = std::move(larger);
  capacity_ = capacity;
}

void Encoder::add_shared(const Bytes& bytes) {
  shared_.push_back({size_, bytes});
  shared_bytes_ += bytes.size();
}

void Encoder::drop_shared() {
  shared_.clear();
  shared_bytes_ = 0;
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
    if (until != done) segments.push_back({{storage_.get() + done, until - done}, nullptr});
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

Bytes Decoder::take_shared(std::size_t count) {
  const auto taken = take(count);
  if (owner_ == nullptr || taken.size() < kSharedBytesMin) return Bytes::copy_of(taken);
  return {owner_, taken};
}

}  // namespace pharos
