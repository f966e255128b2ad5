#pragma once

#include <pharos/base/error.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

/// An Error between processes, whole: code, outcome, message, remedy, context, the exception. Bytes that make no sense
/// give kCorrupt.
template <>
struct Codec<Error> {
  static constexpr std::string_view kFormat = "pharos.Error/1";
  static void encode(const Error& error, Encoder& to);
  static Error decode(Decoder& from);
};

}  // namespace pharos
