#pragma once

#include <string_view>

#include <pharos/base/id.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

/// An Id is encoded as its number.
template <class Tag>
struct Codec<Id<Tag>> : PlainCodec<Id<Tag>> {
  static constexpr std::string_view kFormat = "pharos.Id/1";
};

}  // namespace pharos
