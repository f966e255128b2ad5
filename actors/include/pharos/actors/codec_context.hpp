#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <pharos/actors/cell_handle.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

namespace object_store {
class Object;
}

namespace detail {

class ActorHandle;
using ActorHandles = std::vector<std::shared_ptr<ActorHandle>>;

/// A place among encoded bytes where something belongs that is not there.
struct Hole {
  enum What : std::uint8_t {
    kOutcome,    ///< of another call, or its error: a Ref
    kResult,     ///< of another call, as it is
    kConverted,  ///< the same, as another type
    kObject,     ///< bytes that lie in the object store
  };
  What what;
  std::size_t offset;
  CellHandle cell = {};  ///< of none for kObject
  /// False: the bytes are no such result.
  bool (*convert)(const CellHandle& cell, const Encoded& result, Encoder& to) = nullptr;
  std::shared_ptr<object_store::Object> object = nullptr;
  std::size_t begin = 0;  ///< in `object`
  std::size_t size = 0;

  /// It can be filled now.
  bool there() const { return what == kObject || cell.ready(); }
};

}  // namespace detail

/// What values hold that is not bytes. A value travels once the results that its Refs stand for are there: they go
/// along with it, so that nobody waits for what another process may take with it into its grave
/// (docs/decisions/0011-a-value-travels-with-its-refs.md).
class CodecContext {
 public:
  detail::ActorHandles actors;                  ///< that were encoded: whoever receives them needs them
  std::vector<detail::Hole> holes;              ///< where Refs were encoded; by offset
  bool fills_holes = false;                     ///< also where a result is there: it goes in later
  const detail::CellHandle* decodes = nullptr;  ///< the result that is being decoded

  void clear() {
    if (!actors.empty()) [[unlikely]]
      actors.clear();
    if (!holes.empty()) [[unlikely]]
      holes.clear();
  }
};

namespace detail {

/// Of a result that is there. Views in its values keep it alive.
class ResultDecoder : public Decoder {
 public:
  ResultDecoder(const CellHandle& cell, const Encoded& result)
      : Decoder{result.bytes, result.bytes.size() >= kSharedBytesMin ? result.owner : nullptr} {
    if (!result.count.empty()) [[unlikely]]
      precede(result.count, rest_);
    context_.decodes = &cell;
    set_context(&context_);
  }
  ResultDecoder(ResultDecoder&&) = delete;

  /// All of it was read, and is a value.
  bool done() const { return !failed() && left() == 0; }

 private:
  CodecContext context_;
  Part rest_;
};

PHAROS_API void encode_ref(const CellHandle& cell, Encoder& to);
/// Of none, after a failure.
PHAROS_API CellHandle decode_ref(Decoder& from);

/// Encodes a value and nothing else. False: it has Refs whose results are not there; wait for `pending_refs()`, and
/// encode it again.
template <class T>
bool encode_ready(const T& value, Encoder& to) {
  to.clear();
  do {
    if (CodecContext* const context = to.context()) context->clear();
    Codec<T>::encode(value, to);
    if (to.context() != nullptr && !to.context()->holes.empty()) [[unlikely]]
      return false;
  } while (to.again());
  return true;
}
/// While they are waited for, whatever runs on this thread meanwhile may use the encoder.
PHAROS_API std::vector<CellHandle> pending_refs(Encoder& of);
/// Encodes a value once its Refs are there; throws what get() throws when they will not come.
template <class T>
void encode_when_ready(const T& value, Encoder& to) {
  while (!encode_ready(value, to)) [[unlikely]] {
      for (const CellHandle& cell : pending_refs(to)) wait_until_ready(cell);
    }
}

/// Encodes a value that is to be a cell's: what is large goes to the object store.
class PHAROS_API ValueEncoder {
 public:
  explicit ValueEncoder(const CellHandle& cell);
  ~ValueEncoder();
  Encoder& operator*() { return encoder_; }

 private:
  class Room;
  std::unique_ptr<Room> room_;
  CodecContext context_;
  Encoder encoder_;
};

}  // namespace detail
}  // namespace pharos
