// Decodes arbitrary bytes as errors, strings and numbers: decoding fails, or the value survives another round trip.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <pharos/base/check.hpp>
#include <pharos/wire/error_codec.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using pharos::Codec;
  using pharos::Error;
  const auto bytes = std::as_bytes(std::span{data, size});

  pharos::Decoder errors{bytes};
  const Error error = Codec<Error>::decode(errors);
  if (!errors.failed()) {
    pharos::Encoder encoder;
    Codec<Error>::encode(error, encoder);
    pharos::Decoder again{encoder.bytes()};
    const Error same = Codec<Error>::decode(again);
    PHAROS_CHECK(!again.failed() && again.left() == 0);
    PHAROS_CHECK(same.code() == error.code() && same.outcome() == error.outcome());
    PHAROS_CHECK(same.message() == error.message() && same.remedy() == error.remedy());
    PHAROS_CHECK(same.context() == error.context());
  }

  pharos::Decoder values{bytes};
  std::size_t left = values.left();
  while (left != 0 && !values.failed()) {
    switch (static_cast<unsigned>(bytes[bytes.size() - left]) % 3) {
      case 0: {
        const std::string text = Codec<std::string>::decode(values);
        PHAROS_CHECK(text.size() <= size);
        break;
      }
      case 1: Codec<bool>::decode(values); break;
      default: Codec<std::uint32_t>::decode(values); break;
    }
    PHAROS_CHECK(values.failed() || values.left() < left);
    left = values.left();
  }
  return 0;
}
