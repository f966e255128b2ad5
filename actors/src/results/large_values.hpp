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
#include <pharos/actors/registered_function.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/net/link.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/object_store/store_client.hpp>

#include "results/pieces.hpp"

namespace pharos::actors {

/// A caller's part in its node's object store: makes, reads and takes over large values. It opens the store when the
/// caller first meets a large value.
/// Owned by a Caller and shared with its links and results; objects may outlive it. Any thread, except that functions
/// which wait for the node must not be called on the executor's strand, where the node's answer arrives. Fails as
/// object_store::StoreClient does (kExhausted if the store is full, kObjectLost and kOwnerDied if an object is gone);
/// with kRuntimeStopped after end() or if the node is gone; and with kDeadlineExceeded if the node does not answer in
/// 10 minutes.
class LargeValues final : public object_store::StoreNode, public std::enable_shared_from_this<LargeValues> {
 public:
  explicit LargeValues(async::Executor& executor) : executor_{executor}, background_{executor} {}

  /// Called when the node has registered the caller. The node cannot be asked for anything before that.
  void join(const std::shared_ptr<net::Peer>& node, const object_store::StoreClient::Self& self);
  /// Handles a message from the node. Returns false if the message is not about the store.
  bool on_node_message(const wire::Message& message);
  /// Cancels the requests to the node that are under way, which then fail with kCancelled, and waits for their end; if
  /// that takes more than 10 s, the process aborts. No request is sent after this. Must come before the destructor, and
  /// not on the strand.
  void end();
  void abandon_after_fork() { ended_.store(true); }
  /// For the simulator: the process has died, though its code goes on running.
  void abandon();
  bool ended() const { return ended_.load(); }

  /// Makes an object of this size, which is to be written. Waits for the node if no leased slab has room. `heir`: the
  /// caller to which the object will be handed over. `label`: where the object comes from, for people.
  Result<object_store::WritableObject> create(std::size_t bytes, CallerId heir, std::string_view label);
  /// Returns the object that these bytes are a part of. Null if they do not lie in the store, or if this process has no
  /// share in the object. Does not wait.
  std::shared_ptr<object_store::Object> object_with(std::span<const std::byte> bytes) const;
  /// Returns the parts of a payload with pieces (kInPieces), in their order. `buffer` keeps the payload's own bytes
  /// alive. Waits for the node if the store is not open, or if an object is on disk or at another node.
  Result<std::vector<Decoder::Part>> gather(std::span<const std::byte> payload, std::shared_ptr<const void> buffer);

  /// Announces a payload that will be gathered later, so that this node fetches its objects from other nodes meanwhile.
  /// Does nothing while the store is not open. Does not wait, and ignores failures.
  void look_ahead(std::span<const std::byte> payload) const;
  /// Returns a copy of all parts of such a payload in one piece, which needs no object. This process must hold the
  /// objects. Does not wait. kInvalidArgument if there are more bytes than `most`; kExhausted if an object is on disk.
  /// Aborts the process if the store is not open.
  Result<std::vector<std::byte>> in_one_piece(std::span<const std::byte> payload, ByteCount most);

  /// Takes over the object of a result that was made for this caller. Any thread; does not wait. `then` gets the object
  /// or an error: at once on this thread, or later on the strand. An object of another node is kept there by its maker
  /// until `then` runs.
  using Taken = async::UniqueFunction<void(Result<std::shared_ptr<object_store::Object>> object)>;
  void take(std::span<const std::byte> payload, Taken then);

  /// Returns an object of any node once it is in this node's memory, or an error if it cannot be brought there. On the
  /// strand.
  async::Async<Result<std::shared_ptr<object_store::Object>>> find(object_store::Location location);

  Result<object_store::Slab> lease(std::uint64_t slot_bytes) override;
  void give_back(std::uint32_t first_slot) override;
  Result<void> bring(const object_store::Location& location) override;
  Result<object_store::Location> import(const object_store::Location& location) override;

 private:
  using Opened = std::shared_ptr<object_store::StoreClient>;

  static Result<std::vector<Decoder::Part>> gather(object_store::StoreClient& client,
                                                   std::span<const std::byte> payload,
                                                   std::shared_ptr<const void> buffer, bool waits);
  Opened opened() const;
  Result<Opened> open();
  async::Async<Result<Opened>> open_store();
  async::Async<Result<Opened>> ask_for_store();
  async::Async<Result<object_store::Slab>> ask_for_slab(std::uint64_t slot_bytes);
  async::Async<Result<void>> ask_to_bring(object_store::Location location);
  /// Asks the node. Returns its answer, or kInternal if the answer is of another type.
  template <class Answer>
  async::Async<Result<Answer>> ask(wire::Message question);
  async::Async<Result<object_store::Location>> ask_to_import(object_store::Location location);
  async::Async<void> take_later(object_store::Location location, Taken then);
  async::Async<Result<std::shared_ptr<object_store::Object>>> borrow(object_store::Location location);
  async::Async<Result<std::shared_ptr<object_store::Object>>> take(object_store::Location location);

  async::Executor& executor_;
  std::weak_ptr<net::Peer> node_;  // owned by the caller
  object_store::StoreClient::Self self_;
  std::atomic<bool> ended_ = false;

  mutable std::mutex mutex_;
  Opened client_;  // null until opened
  // Used on the strand only.
  bool opening_ = false;
  std::vector<async::Completion<Opened>> waiting_;

  async::AsyncGroup background_;
};

/// Returns a label of an object for people: "put at main.cpp:7".
std::string label_of(const char* what, CallSite site);

/// The place in the object store to which an Encoder writes a large value: an object that is made when the value's size
/// is known. Owned by the code that owns the Encoder. One thread. An object that was not sealed goes back to the store
/// with the next make(), or with the destructor.
class ObjectRoom : public LargeRoom {
 public:
  /// `heir`: the caller to which the object will be handed over; none if this process keeps it.
  explicit ObjectRoom(CallerId heir = {}) : heir_{heir} {}

  std::byte* make(std::size_t bytes, std::size_t longest) override;
  void write(std::byte* to, const void* from, std::size_t count) override { object_->write(to, from, count); }
  /// Completes the object and returns it. Only when the encoder has written the value here (Encoder::in_room()).
  std::shared_ptr<object_store::Object> seal();
  /// Returns why there is no object. Only after make() has returned null.
  Error why() const { return *why_; }

 protected:
  ~ObjectRoom() = default;
  /// Returns null if the caller is gone.
  virtual std::shared_ptr<LargeValues> values() = 0;
  /// Returns where the value comes from, for people.
  virtual std::string label() const = 0;

 private:
  const CallerId heir_;
  std::optional<object_store::WritableObject> object_;
  std::optional<Error> why_;
};

/// Returns the room of an encoder that was given an ObjectRoom.
inline ObjectRoom& room_of(const Encoder& encoder) {
  return static_cast<ObjectRoom&>(*encoder.large_room());
}
/// Returns the error of an encoder that has failed: the store has no room, or the value cannot travel. `what` is the
/// value's name in the message, such as "the result".
Error not_encoded(const char* what, const Encoder& encoder);

/// An ObjectRoom in the part of the store that belongs to a given caller. It makes the labels of results. `values` must
/// outlive it, and so must the function.
class RoomIn final : public ObjectRoom {
 public:
  explicit RoomIn(LargeValues& values, CallerId heir = {}) : ObjectRoom{heir}, values_{values} {}
  /// The next value is the result of this function.
  void for_result_of(const detail::Function& function) { function_ = &function; }

 private:
  std::shared_ptr<LargeValues> values() override { return values_.shared_from_this(); }
  std::string label() const override;
  LargeValues& values_;
  const detail::Function* function_ = nullptr;
};

/// Returns an owner for the frame that was last taken from `frames`, so that values can share its bytes. Returns null
/// for a small frame, because its values would keep a whole receive buffer alive.
inline std::shared_ptr<const void> buffer_of(const wire::FrameView& frame, const net::FrameBatch& frames) {
  constexpr std::size_t kSharedMin = 32 << 10;  // half of the bytes that a link reads at a time
  if (frame.payload.size() < kSharedMin) [[likely]]
    return nullptr;
  return std::make_shared<const net::FrameBatch>(frames);
}

/// A payload that has arrived and is to be decoded, with the objects that it refers to. Lives on the stack of the
/// thread that runs the call. The payload and this must outlive the Decoder. Each object lives as long as this or as a
/// value that shares its bytes.
class Arrived {
 public:
  /// Throws BadArguments if gather() fails. May wait for the node, so not on the executor's strand. `buffer` keeps the
  /// payload alive if values may share its bytes; else null.
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
