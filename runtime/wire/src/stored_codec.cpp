#include <string>

#include <pharos/base/id.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace pharos::detail {
namespace {

constexpr std::uint32_t kStoredMagic = 0x56524850;  // "PHRV"

Error not_a_value(std::string why) {
  return {ErrorCode::kCorrupt, "these bytes are not a value that to_bytes() wrote: " + std::move(why)};
}

}  // namespace

void begin_stored(std::uint64_t shape, Encoder& to) {
  Codec<StoredHeader>::encode({kStoredMagic, kCodecVersion, shape}, to);
}

Result<std::vector<std::byte>> end_stored(const Encoder& encoder) {
  if (encoder.failed()) {
    return Error{ErrorCode::kInvalidArgument,
                 "this value cannot be written as bytes: " + std::string{to_string(encoder.failure())}};
  }
  return encoder.flattened();
}

Result<void> check_stored(std::uint64_t shape, Decoder& from) {
  const auto header = Codec<StoredHeader>::decode(from);
  if (from.failed()) return not_a_value("they are shorter than the header of a value");
  if (header.magic != kStoredMagic) return not_a_value("they do not begin with the header of a value");
  if (header.version != kCodecVersion) {
    return Error{ErrorCode::kUnsupported,
                 "these bytes were written with version " + std::to_string(header.version) +
                     " of the codec; this program has version " + std::to_string(kCodecVersion),
                 "Read them with the Pharos that wrote them, or a newer one"};
  }
  if (header.shape != shape) {
    return Error{
        ErrorCode::kInvalidArgument,
        "these bytes are a value of another type, of structure " + to_hex(header.shape) + ", not " + to_hex(shape),
        "Read them as the type that was written; its fields may have changed since"};
  }
  return {};
}

Error stored_error(const Decoder& decoder) {
  return not_a_value(decoder.failed() ? std::string{to_string(decoder.failure())}
                                      : std::to_string(decoder.left()) + " bytes are left over");
}

}  // namespace pharos::detail
