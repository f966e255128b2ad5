#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/codec_context.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/error.hpp>
#include <pharos/object_store/lessee.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/frame.hpp>

#include "waiting_room.hpp"

namespace pharos::actors {
struct Recipe;
}

namespace pharos::detail {

/// How a result that lies in the store, or what it is a part of, can be made again when it is lost; and what must be
/// kept for that.
struct Remakable {
  std::shared_ptr<actors::Recipe> recipe{};
  std::vector<std::shared_ptr<object_store::Object>> arguments{};
};

/// One result: pending, with the call that will bring it, then for ever a value or an error. Shared by its Refs and by
/// the call. Small arguments and a small value live in the cell, one after the other in the same place, so that a call
/// allocates nothing but this.
/// Threads: the call belongs to whoever is to send it; everything else from any thread.
class ResultCell {
 public:
  /// What brings the result. Kept while it is pending, so that it can be sent, and sent again.
  struct Call {
    wire::FrameKind kind = wire::FrameKind::kCall;
    std::uint8_t attempt = 0;
    std::uint8_t flags = wire::kNoFlags;  ///< of the arguments
    std::uint8_t max_retries = 0;         ///< how often it may be run again; a task also by another worker
    bool unordered = false;               ///< need not wait for earlier calls whose arguments are not there yet
    std::uint32_t function = 0;
    std::uint32_t retry_on = 0;  ///< what it may throw to be run again: 1 + index in the table, 0 for nothing
    TraceId trace;
    Deadline deadline = Deadline::never();
  };

  static CellHandle make(std::shared_ptr<actors::WaitingRoom> room) {
    return CellHandle{new ResultCell{std::move(room)}};
  }

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  /// False when nobody has it any more.
  bool retain_if_held() {
    auto references = references_.load(std::memory_order_relaxed);
    while (references != 0 && !references_.compare_exchange_weak(references, references + 1)) {
    }
    return references != 0;
  }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  void set_call(const Call& call, const Encoder& arguments) {
    call_ = call;
    store(arguments);
  }
  /// Without its arguments, which wait for other results. It cannot be sent before they are complete.
  void set_call(const Call& call) {
    call_ = call;
    awaits_arguments_.store(true, std::memory_order_relaxed);
  }
  void complete_arguments(const Encoder& arguments) {
    store(arguments);
    awaits_arguments_.store(false, std::memory_order_release);
  }
  /// Lives until the result is there. Before the call is sent.
  void keep(std::shared_ptr<const void> kept) {
    if (kept_ == nullptr) kept_ = std::make_unique<Kept>();
    kept_->all.push_back(std::move(kept));
  }
  /// The same for an object that is the call's alone.
  void keep_argument(std::shared_ptr<object_store::Object> object) {
    keep(object);
    kept_->own_arguments.push_back(std::move(object));
  }
  std::span<const std::shared_ptr<object_store::Object>> own_arguments() const {
    if (kept_ == nullptr) return {};
    return kept_->own_arguments;
  }
  /// Its call is not wanted any more: whoever has it does not send it again.
  void note_cancelled() { cancelled_.store(true); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool awaits_arguments() const { return awaits_arguments_.load(std::memory_order_acquire); }
  Call& call() { return call_; }
  const Call& call() const { return call_; }
  /// Of a call that is not on its way now: it may have been before, and have run.
  Outcome outcome_unsent() const { return call_.attempt == 0 ? Outcome::kNotStarted : Outcome::kUnknown; }
  std::span<const std::byte> arguments() const { return {large_ != nullptr ? large_.get() : inline_.data(), size_}; }

  bool ready() const { return word_.load(std::memory_order_acquire) == actors::WaitingRoom::kReady; }

  // The first of all counts. `actors`: handles that are in the value.
  void set_value(std::span<const std::byte> bytes) {
    if (!begin_to_complete()) return;
    if (!bytes.empty()) {
      std::memcpy(room_for(bytes.size()), bytes.data(), bytes.size());
    } else {
      size_ = 0;
    }
    complete();
  }
  void set_value(std::span<const std::byte> bytes, ActorHandles actors) {
    if (!begin_to_complete()) return;
    keep(std::move(actors));
    std::ranges::copy(bytes, room_for(bytes.size()));
    complete();
  }
  void set_value(const Encoder& value, ActorHandles actors) {
    if (!begin_to_complete()) return;
    keep(std::move(actors));
    store(value);
    complete();
  }
  /// A value that lies in the object store, or a part of it that does.
  struct Stored {
    std::shared_ptr<object_store::Object> object;
    std::size_t begin = 0;
    std::size_t size = 0;
  };
  void set_object(std::shared_ptr<object_store::Object> object, ActorHandles actors, Remakable remakable = {}) {
    const std::size_t size = object->size();
    set_stored({std::move(object), 0, size}, std::nullopt, std::move(actors), std::move(remakable));
  }
  /// With a count: the value is that and these elements.
  void set_stored(Stored stored, std::optional<std::uint64_t> count, ActorHandles actors, Remakable remakable) {
    if (!begin_to_complete()) return;
    keep(std::move(actors));
    elsewhere().stored = std::move(stored);
    elsewhere_->count = count;
    elsewhere_->remakable = std::move(remakable);
    complete();
  }
  /// The value is a count and these elements, which are a part of something.
  void set_elements(std::uint64_t count, Bytes elements, ActorHandles actors) {
    if (!begin_to_complete()) return;
    keep(std::move(actors));
    elsewhere().count = count;
    elsewhere_->bytes = std::move(elements);
    complete();
  }
  /// The value is a part of something, which it keeps alive.
  void set_value(Bytes part, ActorHandles actors) {
    if (!begin_to_complete()) return;
    keep(std::move(actors));
    elsewhere().bytes = std::move(part);
    complete();
  }
  void set_error(Error error) {
    if (begin_to_complete()) fail_claimed(std::move(error));
  }

  /// From here on nobody else completes it: false if somebody has, or is about to.
  bool claim() { return begin_to_complete(); }
  void fail_claimed(Error error) {
    // Not this time; but an attempt before may have.
    if (call_.attempt != 0 && error.outcome() == Outcome::kNotStarted) {
      error = std::move(error).with_outcome(Outcome::kUnknown);
    }
    error_ = std::make_unique<Error>(std::move(error));
    complete();
  }

  /// Until it is there and, if it lies in the object store, in memory.
  Result<Encoded> wait(Deadline deadline);
  // Only when ready.
  const Error* error() const { return error_.get(); }
  std::optional<std::uint64_t> count() const { return elsewhere_ == nullptr ? std::nullopt : elsewhere_->count; }
  const Stored* stored() const {
    return elsewhere_ == nullptr || elsewhere_->stored.object == nullptr ? nullptr : &elsewhere_->stored;
  }
  const Remakable& remakable() const { return elsewhere_->remakable; }
  /// Handles that are in the value.
  std::span<const std::shared_ptr<ActorHandle>> actors() const {
    return elsewhere_ == nullptr ? std::span<const std::shared_ptr<ActorHandle>>{} : elsewhere_->actors;
  }
  /// Gives up the call that brings it.
  void cancel() {
    if (ready()) return;
    if (on_cancel_ != nullptr) return (*on_cancel_)();
    room_->cancel(*this);
  }
  /// What cancel() does instead: for a cell that no call brings. Before anybody else has a share in it.
  void on_cancel(async::Callback then) { on_cancel_ = std::make_unique<async::Callback>(std::move(then)); }
  /// A pending one that whoever has a share in this may wait for, in the same way.
  CellHandle sibling() const { return make(room_); }
  /// The waiting alone, with nothing done about the call that this thread may be running.
  void park(Deadline deadline) { room_->wait(word_, deadline); }

  /// Nothing that this waits for waits to be written.
  void flush() { room_->flush(); }

  /// Where a large value goes that is made for it; null: into private memory, since the Runtime has ended.
  std::shared_ptr<actors::LargeValues> large_values() const;
  /// A coroutine waits for it as long as the note lives.
  actors::WaitingThreads::Note note_coroutine() {
    return {room_->threads(), *this, actors::WaitingThreads::Who::kCoroutine};
  }

  /// This thread waits for it, or for what it waits for, as long as the note lives.
  actors::WaitingThreads::Note note_thread() { return {room_->threads(), *this}; }

  /// Runs `then` once it is ready: on the thread that completes it, so it must be quick and take no lock that is held
  /// while cells are completed; or at once, if it is ready.
  /// `watcher` may forget() it.
  void when_ready(async::Callback then, const void* watcher = nullptr);
  void forget(const void* watcher);
  /// The same for a user's code, which may take long: on the Runtime's thread for callbacks.
  void call_back(async::Callback then);
  /// Once wait() does not wait, as long as what `then` is given is kept. On whichever thread.
  void when_readable(async::UniqueFunction<void(std::shared_ptr<const void> kept)> then);

 private:
  struct Watch {
    async::Callback then;
    const void* watcher;
  };

  explicit ResultCell(std::shared_ptr<actors::WaitingRoom> room) : room_{std::move(room)} {}

  void store(const Encoder& encoded) { encoded.copy_to(room_for(encoded.size())); }
  std::byte* room_for(std::size_t size) {
    size_ = size;
    if (size > inline_.size()) [[unlikely]]
      return large_room(size);
    large_.reset();
    return inline_.data();
  }
  std::byte* large_room(std::size_t size);
  /// What a value has that is not in the cell.
  struct Elsewhere {
    Stored stored;                       // the value, if there is an object
    Bytes bytes;                         // the value, if they have an owner
    std::optional<std::uint64_t> count;  // comes before
    ActorHandles actors;
    Remakable remakable;
  };
  void keep(ActorHandles actors) {
    if (!actors.empty()) [[unlikely]]
      elsewhere().actors = std::move(actors);
  }
  Elsewhere& elsewhere() {
    if (elsewhere_ == nullptr) elsewhere_ = std::make_unique<Elsewhere>();
    return *elsewhere_;
  }

  Result<Encoded> value(Deadline deadline) const {
    if (elsewhere_ == nullptr) [[likely]]
      return Encoded{{}, arguments()};
    return value_elsewhere(deadline);
  }
  Result<Encoded> value_elsewhere(Deadline deadline) const;
  Result<Encoded> made_again(const Error& why, Deadline deadline) const;
  bool begin_to_complete() { return !completed_.exchange(true, std::memory_order_acq_rel); }
  void complete();
  void add_watch(Watch watch);

  std::atomic<std::uint32_t> references_ = 1;
  std::atomic<std::uint32_t> word_ = actors::WaitingRoom::kPending;
  std::shared_ptr<actors::WaitingRoom> room_;
  Call call_;
  std::atomic<bool> awaits_arguments_ = false;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> completed_ = false;  // or about to be
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> large_;
  std::unique_ptr<Elsewhere> elsewhere_;
  std::unique_ptr<Error> error_;
  std::unique_ptr<std::vector<Watch>> watchers_;
  std::unique_ptr<async::Callback> on_cancel_;
  struct Kept {
    std::vector<std::shared_ptr<const void>> all;
    std::vector<std::shared_ptr<object_store::Object>> own_arguments;  // of these: what nobody else has
  };
  std::unique_ptr<Kept> kept_;
  std::array<std::byte, 48> inline_;
};

}  // namespace pharos::detail
