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

/// A place among encoded bytes where a Ref's result, or bytes from the object store, must be inserted later. A value,
/// which keeps the other call's result and the object.
struct Placeholder {
  enum What : std::uint8_t {
    kOutcome,    ///< a Ref inside of a value: the result of another call, or its error
    kResult,     ///< a Ref that is an argument: the result of another call
    kConverted,  ///< the same, converted to another type
    kObject,     ///< bytes that lie in the object store
  };
  What what;
  std::size_t offset;
  CellHandle cell = {};  ///< the other call's result; empty for kObject
  /// For kConverted: encodes the result as the other type. Returns false if the bytes are no such result.
  bool (*convert)(const CellHandle& cell, const Encoded& result, Encoder& to) = nullptr;
  std::shared_ptr<object_store::Object> object = nullptr;
  std::size_t begin = 0;  ///< where the bytes begin in `object`
  std::size_t size = 0;

  /// Returns whether the placeholder can be filled now.
  bool there() const { return what == kObject || cell.ready(); }
};

}  // namespace detail

/// The parts of a value that are not bytes: handles of actors, and Refs. A value travels once the results of its Refs
/// are ready. They go along with it, so that no process waits for a result that is lost when another process dies
/// (docs/decisions/0011-a-value-travels-with-its-refs.md).
/// Owned by whoever owns the Encoder or Decoder, which has a plain pointer to this; one thread.
class CodecContext {
 public:
  detail::ActorHandles actors;                    ///< actors whose handles were encoded, which the receiver will hold
  std::vector<detail::Placeholder> placeholders;  ///< places where something must be inserted, by offset
  bool keeps_placeholders = false;                ///< true if a Ref leaves a placeholder even when its result is ready
  const detail::CellHandle* decodes = nullptr;    ///< the result that is being decoded; null while encoding

  void clear() {
    if (!actors.empty()) [[unlikely]]
      actors.clear();
    if (!placeholders.empty()) [[unlikely]]
      placeholders.clear();
  }
};

namespace detail {

/// Decodes a result that is ready. Views in the decoded value keep the result alive. The decoder itself keeps nothing:
/// `cell` and `result` must outlive it. After bytes that are no value of the type, done() is false. One thread.
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

  /// Returns whether all bytes were read and were a value.
  bool done() const { return !failed() && left() == 0; }

 private:
  CodecContext context_;
  Part rest_;
};

/// Fails the encoder if it has no context, or if the cell was moved from.
PHAROS_API void encode_ref(const CellHandle& cell, Encoder& to);
/// Returns an empty handle if the bytes are no Ref, or if arguments are decoded outside of a worker; the decoder has
/// failed then.
PHAROS_API CellHandle decode_ref(Decoder& from);

/// Empties the encoder and encodes a value. Returns false if the value has Refs that are not ready: the caller waits
/// for pending_refs() and encodes the value again. Also returns true if the value cannot be encoded: then to.failed()
/// is true.
template <class T>
bool encode_ready(const T& value, Encoder& to) {
  to.clear();
  do {
    if (CodecContext* const context = to.context()) context->clear();
    Codec<T>::encode(value, to);
    if (to.context() != nullptr && !to.context()->placeholders.empty()) [[unlikely]]
      return false;
  } while (to.again());
  return true;
}
/// Returns the Refs that kept encode_ready() from its end, and empties the context. While the caller waits for them,
/// other code on this thread may use the encoder.
PHAROS_API std::vector<CellHandle> pending_refs(Encoder& of);
/// Waits until the Refs of a value are ready, and encodes it. Blocks this thread. Throws Cancelled in a call that is
/// cancelled, and RuntimeStopped in a child of fork(). A Ref that is an error is encoded as that error.
template <class T>
void encode_when_ready(const T& value, Encoder& to) {
  while (!encode_ready(value, to)) [[unlikely]] {
      for (const CellHandle& cell : pending_refs(to)) wait_until_ready(cell);
    }
}

/// Encodes a value that will complete a cell. A large value goes to the object store; after the end of the Runtime it
/// goes to private memory, where EncodedTooLarge is thrown above 2 GiB. If the store has no room, the encoder fails.
/// One thread, on its stack. A value that set_value() has not taken is dropped by the destructor.
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
