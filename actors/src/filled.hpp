#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/codec_context.hpp>
#include <pharos/base/error.hpp>
#include <pharos/object_store/lessee.hpp>

#include "pieces.hpp"

namespace pharos::actors {
class LargeValues;
}

namespace pharos::detail {

/// Arguments with the results that belong to them in their places. What lies in the object store stays there.
class Filled {
 public:
  explicit Filled(const actors::LargeValues& values) : values_{values} { bytes_.set_context(&carried_); }

  /// Once, when all results are there. Why not, if one that is an argument is an error. The arguments lie in `object`,
  /// or else in `bytes`.
  std::optional<Error> fill(std::span<const std::byte> bytes, const object_store::Object* object,
                            std::span<const Hole> holes);
  /// Whether the result, which is there, must be in memory for that.
  static bool reads(const Hole& hole);
  /// What goes into the frame; the flags say how.
  const Encoder& payload(std::uint8_t& flags);

 private:
  void put_outcome(const CellHandle& cell);
  std::optional<Error> put_result(const Hole& hole);
  /// Bytes of a result, where they are if that is in the store.
  void put(std::span<const std::byte> bytes, const CellHandle& of);
  void refer(const object_store::Object& object, std::size_t begin, std::size_t size, bool of_ref = false);

  const actors::LargeValues& values_;
  CodecContext carried_;
  Encoder bytes_;
  std::vector<actors::Piece> pieces_;
  Encoder with_pieces_;
};

}  // namespace pharos::detail
