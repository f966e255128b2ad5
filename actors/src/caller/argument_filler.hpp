#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/codec_context.hpp>
#include <pharos/base/error.hpp>
#include <pharos/object_store/store_client.hpp>

#include "results/pieces.hpp"

namespace pharos::actors {
class LargeValues;
}

namespace pharos::detail {

/// Completes the encoded arguments of a call: writes the results of other calls into the placeholders that the
/// arguments have for them. Bytes in the object store are not copied; the payload refers to them by pieces, so their
/// objects must live until the call has ended. Made by PendingCalls, on its stack, for one call; one thread. `values`
/// must outlive it.
class ArgumentFiller {
 public:
  explicit ArgumentFiller(const actors::LargeValues& values) : values_{values} { bytes_.set_context(&carried_); }

  /// Fills all placeholders. Called once, when all results are ready. Returns nullopt after success, or an error if a
  /// result that is an argument has failed (then "not started") or cannot be decoded (kCorrupt). Exceptions of a user's
  /// codec or conversion pass through. Waits for the node if the bytes of a result are not in memory (reads()). A Ref
  /// inside an argument is no such result: if it has failed, it travels with its error. The encoded arguments lie in
  /// `object`; if that is null, in `bytes`.
  std::optional<Error> fill(std::span<const std::byte> bytes, const object_store::Object* object,
                            std::span<const Placeholder> placeholders);
  /// Returns whether filling the placeholder reads the bytes of a result in the object store, so that they must be in
  /// memory. Only for a placeholder whose result is ready.
  static bool reads(const Placeholder& placeholder);
  /// Returns the payload of the call's frame, which is valid as long as this object. Adds kInPieces to `flags` if the
  /// payload refers to objects.
  const Encoder& payload(std::uint8_t& flags);

 private:
  void put_outcome(const CellHandle& cell);
  std::optional<Error> put_result(const Placeholder& placeholder);
  std::optional<Error> convert(const Placeholder& placeholder, const Encoded& result);
  /// Writes the bytes of a result, or refers to them if they lie in the object store.
  void put(std::span<const std::byte> bytes, const CellHandle& of);
  void refer(const object_store::Object& object, std::size_t begin, std::size_t size, bool of_ref = false);

  const actors::LargeValues& values_;
  CodecContext carried_;
  Encoder bytes_;
  std::vector<actors::Piece> pieces_;
  Encoder with_pieces_;
};

}  // namespace pharos::detail
