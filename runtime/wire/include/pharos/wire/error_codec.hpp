#pragma once

#include <pharos/base/error.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

/// Encodes all parts of an Error: code, outcome, message, remedy, context (64 lines at most), and the user's exception.
/// Bytes that are no encoded Error decode as an Error with kCorrupt, and the Decoder has failed then.
template <>
struct Codec<Error> {
  static constexpr std::string_view kFormat = "pharos.Error/1";
  static void encode(const Error& error, Encoder& to);
  static Error decode(Decoder& from);
};

}  // namespace pharos
