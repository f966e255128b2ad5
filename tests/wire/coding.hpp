#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include <pharos/wire/codec.hpp>

namespace pharos {

template <class T>
std::vector<std::byte> encoded(const T& value) {
  Encoder encoder;
  Codec<T>::encode(value, encoder);
  EXPECT_FALSE(encoder.failed());
  return encoder.flattened();
}

/// Encodes the value and returns the decoded result. Expects that decoding fails for truncated bytes: at every length
/// if there are fewer than 1000 bytes, otherwise at about 100 lengths.
template <class T>
T round_trip(const T& value) {
  const auto bytes = encoded(value);
  EXPECT_FALSE(bytes.empty());
  const std::size_t step = bytes.size() < 1000 ? 1 : bytes.size() / 100;
  for (std::size_t size = 0; size < bytes.size(); size += step) {
    const std::vector<std::byte> cut{bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
    Decoder decoder{cut};
    static_cast<void>(Codec<T>::decode(decoder));
    EXPECT_TRUE(decoder.failed()) << size << " of " << bytes.size();
    EXPECT_EQ(decoder.left(), 0u);
  }
  Decoder decoder{bytes};
  T result = Codec<T>::decode(decoder);
  EXPECT_FALSE(decoder.failed()) << to_string(decoder.failure());
  EXPECT_EQ(decoder.left(), 0u);
  return result;
}

/// Returns why these bytes do not decode as a T.
template <class T>
CodecFailure failure_of(const std::vector<std::byte>& bytes) {
  Decoder decoder{bytes};
  static_cast<void>(Codec<T>::decode(decoder));
  return decoder.failure();
}

}  // namespace pharos
