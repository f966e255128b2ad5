#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/actors/call_site.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/actors/registered_function.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/net/link.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/object_store/lessee.hpp>

#include "pieces.hpp"

namespace pharos::actors {

/// A caller's part in its node's object store, opened when a large value is first met.
/// Owned by a Caller, shared by its links; outlived by objects. Any thread. What waits for the node must not be called
/// on the executor's strand. Failure: as object_store::Lessee's; kRuntimeStopped after end().
class LargeValues final : public object_store::Lessor, public std::enable_shared_from_this<LargeValues> {
 public:
  explicit LargeValues(async::Executor& executor) : executor_{executor}, background_{executor} {}

  /// The node has taken the caller in. Nothing can be asked before.
  void join(const std::shared_ptr<net::Peer>& node, const object_store::Lessee::Self& self);
  /// False for a message that is not about the store.
  bool on_node_message(const wire::Message& message);
  /// Nothing is asked of the node any more.
  void end();
  void abandon_after_fork() { ended_.store(true); }
  /// The process is no more, though its code goes on: in the simulator.
  void abandon();
  bool ended() const { return ended_.load(); }

  /// Waits for the node, if there is no memory here.
  Result<object_store::WritableObject> create(std::size_t bytes, CallerId heir, std::string_view label);
  /// What holds these bytes, if they lie in the store and this process has a share in them.
  std::shared_ptr<object_store::Object> object_with(std::span<const std::byte> bytes) const;
  /// A payload's parts, in their order, of which the `buffer` holds its own. Waits for the node when it is the first
  /// such payload.
  Result<std::vector<Decoder::Part>> gather(std::span<const std::byte> payload, std::shared_ptr<const void> buffer);

  /// Such a payload will be gathered later: what other nodes have of it may come here meanwhile.
  void look_ahead(std::span<const std::byte> payload) const;
  /// The same, copied together so that it needs no object, of objects that this process holds. kInvalidArgument when
  /// that is more than `most`; kExhausted when it is out on disk.
  Result<std::vector<std::byte>> in_one_piece(std::span<const std::byte> payload, ByteCount most);

  /// A result that was made for this caller: at once or later, `then` has it. Another node's need not be kept for it
  /// any more.
  using Taken = async::UniqueFunction<void(Result<std::shared_ptr<object_store::Object>> object)>;
  void take(std::span<const std::byte> payload, Taken then);

  /// An object of whichever node, once it is in this one's memory; or why it cannot be.
  static async::Async<Result<std::shared_ptr<object_store::Object>>> find(LargeValues* self,
                                                                          object_store::Location location);

  Result<object_store::Slab> lease(std::uint64_t slot_bytes) override;
  void give_back(std::uint32_t first_slot) override;
  Result<void> bring(const object_store::Location& location) override;
  Result<object_store::Location> import(const object_store::Location& location) override;

 private:
  using Opened = std::shared_ptr<object_store::Lessee>;

  static Result<std::vector<Decoder::Part>> gather(object_store::Lessee& lessee, std::span<const std::byte> payload,
                                                   std::shared_ptr<const void> buffer, bool waits);
  Opened opened() const;
  Result<Opened> open();
  static async::Async<Result<Opened>> open_store(LargeValues* self);
  static async::Async<Result<Opened>> ask_for_store(LargeValues* self);
  static async::Async<Result<object_store::Slab>> ask_for_slab(LargeValues* self, std::uint64_t slot_bytes);
  static async::Async<Result<void>> ask_to_bring(LargeValues* self, object_store::Location location);
  /// The node's answer, of one type.
  template <class Answer>
  static async::Async<Result<Answer>> ask(LargeValues* self, wire::Message question);
  static async::Async<Result<object_store::Location>> ask_to_import(LargeValues* self, object_store::Location location);
  static async::Async<void> take_later(LargeValues* self, object_store::Location location, Taken then);
  static async::Async<Result<std::shared_ptr<object_store::Object>>> borrow(LargeValues* self,
                                                                            object_store::Location location);
  static async::Async<Result<std::shared_ptr<object_store::Object>>> take(LargeValues* self,
                                                                          object_store::Location location);

  async::Executor& executor_;
  std::weak_ptr<net::Peer> node_;  // the caller's
  object_store::Lessee::Self self_;
  std::atomic<bool> ended_ = false;

  mutable std::mutex mutex_;
  Opened lessee_;  // null until opened
  // The strand's.
  bool opening_ = false;
  std::vector<async::Completion<Opened>> waiting_;

  async::AsyncGroup background_;
};

/// "put at main.cpp:7".
std::string label_of(const char* what, CallSite site);

/// Where a large value is encoded to: an object that is made when its size is known. One thread.
class ObjectRoom : public LargeRoom {
 public:
  /// `heir`: who will be given the object.
  explicit ObjectRoom(CallerId heir = {}) : heir_{heir} {}

  std::byte* make(std::size_t bytes, std::size_t longest) override;
  void write(std::byte* to, const void* from, std::size_t count) override { object_->write(to, from, count); }
  /// The object, complete. Only after the encoder is in the room.
  std::shared_ptr<object_store::Object> seal();
  /// Why there is none.
  Error why() const { return *why_; }

 protected:
  ~ObjectRoom() = default;
  /// Null: its caller is gone.
  virtual std::shared_ptr<LargeValues> values() = 0;
  /// Where the value comes from, for people.
  virtual std::string label() const = 0;

 private:
  const CallerId heir_;
  std::optional<object_store::WritableObject> object_;
  std::optional<Error> why_;
};

/// Of an encoder that was given one.
inline ObjectRoom& room_of(const Encoder& encoder) {
  return static_cast<ObjectRoom&>(*encoder.large_room());
}
/// Why there is nothing in it. `what`: "the result".
Error not_encoded(const char* what, const Encoder& encoder);

/// One for values of a caller that is known.
class RoomIn final : public ObjectRoom {
 public:
  explicit RoomIn(LargeValues& values, CallerId heir = {}) : ObjectRoom{heir}, values_{values} {}
  /// What comes next is.
  void for_result_of(const detail::Function& function) { function_ = &function; }

 private:
  std::shared_ptr<LargeValues> values() override { return values_.shared_from_this(); }
  std::string label() const override;
  LargeValues& values_;
  const detail::Function* function_ = nullptr;
};

/// What keeps the last frame that was taken of `frames`, for values that share it: null where they would keep much more
/// alive than themselves.
inline std::shared_ptr<const void> buffer_of(const wire::FrameView& frame, const net::FrameBatch& frames) {
  constexpr std::size_t kSharedMin = 32 << 10;  // half of what a link reads at a time
  if (frame.payload.size() < kSharedMin) [[likely]]
    return nullptr;
  return std::make_shared<const net::FrameBatch>(frames);
}

/// A payload that has arrived, to be decoded: with its objects, if it has any, which live as long as this or a view.
class Arrived {
 public:
  /// Throws what gather() may fail with. `buffer`: what keeps the payload, if values may share it.
  Arrived(LargeValues& values, std::uint8_t flags, std::span<const std::byte> payload,
          std::shared_ptr<const void> buffer)
      : payload_{payload}, buffer_{std::move(buffer)} {
    if ((flags & wire::kInPieces) != 0) [[unlikely]]
      gather(values);
  }

  Decoder decoder() const { return parts_.empty() ? Decoder{payload_, buffer_} : Decoder{parts_}; }

 private:
  void gather(LargeValues& values);

  const std::span<const std::byte> payload_;
  const std::shared_ptr<const void> buffer_;
  std::vector<Decoder::Part> parts_;
};

}  // namespace pharos::actors
