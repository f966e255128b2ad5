#pragma once

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
#include <pharos/object_store/store_client.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/frame.hpp>

#include "results/cell_call.hpp"
#include "results/cell_memory.hpp"
#include "results/failed_sends.hpp"
#include "results/small_bytes.hpp"
#include "results/thrown.hpp"
#include "results/waiting_room.hpp"

namespace pharos::detail {

/// Makes a lost result again. Shared by the cells of the result (Remakable). Any thread.
class Remake {
 public:
  virtual ~Remake() = default;
  /// Returns the cell of the new result, pending or ready; with the error `why` if the result cannot be made again.
  /// Returns an empty handle if the Runtime has ended.
  virtual CellHandle make_again(const Error& why) = 0;
};

/// How a result in the object store can be made again when it is lost, and the objects that must be kept for that. If
/// the result is a part of a larger one, this describes the larger one. A value, which keeps the recipe and the
/// objects.
struct Remakable {
  std::shared_ptr<Remake> recipe{};  ///< null if the result cannot be made again
  std::vector<std::shared_ptr<object_store::Object>> arguments{};
};

/// One result. It is pending first, with the call that will bring it; then it is ready for ever, with a value or an
/// error. Its Refs and the call share it by reference counts. Small arguments are stored in the cell, and later a small
/// value in their place, so that a call allocates nothing but its cell.
/// Threads: only the object that is about to send the call (an OutgoingCalls, a TaskPool or Caller) uses the call and
/// its arguments; everything else may be used from any thread. Callbacks run on the thread that completes the cell,
/// unless a function says otherwise, and must not throw.
/// End: the last reference destroys the cell. Callbacks of a cell that is still pending are then dropped without being
/// run. A cell may outlive its Runtime, whose end fails the calls of pending cells with kRuntimeStopped.
class ResultCell {
 public:
  using Call = CallDescription;

  static CellHandle make(std::shared_ptr<actors::WaitingRoom> room) {
    return CellHandle{new (actors::take_cell_memory(sizeof(ResultCell))) ResultCell{std::move(room)}};
  }

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  /// Takes a reference. Returns false if there is none left, so that the cell is being destroyed.
  bool retain_if_held() {
    auto references = references_.load(std::memory_order_relaxed);
    while (references != 0 && !references_.compare_exchange_weak(references, references + 1)) {
    }
    return references != 0;
  }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    this->~ResultCell();
    actors::give_back_cell_memory(this);
  }

  void set_call(const Call& call, const Encoder& arguments) {
    call_.set(call);
    bytes_.assign(arguments);
  }
  /// Sets the call without its arguments, which wait for other results. The call must not be sent before
  /// complete_arguments().
  void set_call(const Call& call) {
    call_.set(call);
    call_.await_arguments();
  }
  void complete_arguments(const Encoder& arguments) {
    bytes_.assign(arguments);
    call_.note_complete();
  }
  CellCall& call() { return call_; }
  const CellCall& call() const { return call_; }
  /// Returns the arguments of the call while the result is pending; afterwards the value, if it is stored in the cell.
  std::span<const std::byte> arguments() const { return bytes_.span(); }

  bool ready() const { return word_.load(std::memory_order_acquire) == actors::WaitingRoom::kReady; }

  // Each of the following functions completes the cell. Only the first completion has an effect. `actors` are the
  // handles that the value contains.
  void set_value(std::span<const std::byte> bytes, ActorHandles&& actors = {}) {
    if (!claim()) return;
    keep(std::move(actors));
    std::byte* const room = bytes_.make_room(bytes.size());
    if (!bytes.empty()) std::memcpy(room, bytes.data(), bytes.size());
    complete();
  }
  void set_value(const Encoder& value, ActorHandles actors) {
    if (!claim()) return;
    keep(std::move(actors));
    bytes_.assign(value);
    complete();
  }
  /// A value that is an object of the store, or a part of one.
  struct Stored {
    std::shared_ptr<object_store::Object> object;
    std::size_t begin = 0;
    std::size_t size = 0;
    Remakable remakable{};
  };
  void set_object(std::shared_ptr<object_store::Object> object, ActorHandles actors, Remakable remakable = {}) {
    const std::size_t size = object->size();
    set_stored({std::move(object), 0, size, std::move(remakable)}, std::nullopt, std::move(actors));
  }
  /// If there is a count, the value is the count and then these bytes, which are its elements.
  void set_stored(Stored stored, std::optional<std::uint64_t> count, ActorHandles actors) {
    if (!claim()) return;
    keep(std::move(actors));
    elsewhere().stored = std::move(stored);
    elsewhere_->count = count;
    complete();
  }
  /// The value is these bytes, which are not copied. The cell keeps their owner alive. If there is a count, the value
  /// is the count and then these bytes, which are its elements.
  void set_value(Bytes part, ActorHandles actors, std::optional<std::uint64_t> count = std::nullopt) {
    if (!claim()) return;
    keep(std::move(actors));
    elsewhere().count = count;
    elsewhere_->bytes = std::move(part);
    complete();
  }
  void set_error(Error error) {
    if (claim()) fail_claimed(std::move(error));
  }

  /// Reserves the completion for the caller, which then calls fail_claimed(). Returns false if the cell is complete, or
  /// if another thread is about to complete it.
  bool claim() { return !completed_.exchange(true, std::memory_order_acq_rel); }
  void fail_claimed(Error error) {
    // This attempt has not started, but an earlier one may have.
    if (call_.attempt != 0 && error.outcome() == Outcome::kNotStarted) {
      error = std::move(error).with_outcome(Outcome::kUnknown);
    }
    if (call_.foreign) error = actors::without_exception(std::move(error));
    if (call_.one_way) actors::log_failed_send(call_.function, error);
    error_ = std::make_unique<Error>(std::move(error));
    complete();
  }

  /// Waits until the result is ready and, if it lies in the object store, in memory. Returns its value or error; or
  /// kDeadlineExceeded at the deadline, kCancelled if the call that waits was cancelled, kRuntimeStopped in a child of
  /// fork(). A lost value is made again if it can be. The deadline does not limit the time in which a value is brought
  /// to memory.
  Result<Encoded> wait(Deadline deadline);
  // The following functions may be called only when the cell is ready.
  const Error* error() const { return error_.get(); }
  std::optional<std::uint64_t> count() const { return elsewhere_ == nullptr ? std::nullopt : elsewhere_->count; }
  const Stored* stored() const {
    return elsewhere_ == nullptr || elsewhere_->stored.object == nullptr ? nullptr : &elsewhere_->stored;
  }
  /// Returns the handles that the value contains.
  std::span<const std::shared_ptr<ActorHandle>> actors() const {
    return elsewhere_ == nullptr ? std::span<const std::shared_ptr<ActorHandle>>{} : elsewhere_->actors;
  }
  /// Gives up the call that brings the result. Does nothing if the result is ready; without on_cancel(), also if no
  /// call brings the result, or after the Runtime's end.
  void cancel(bool force = false) {
    if (ready()) return;
    if (on_cancel_ != nullptr) return (*on_cancel_)();
    if (force) call().note_forced();
    room_->cancel(*this);
  }
  /// Sets what cancel() does, for a cell that no call brings. Only before the cell is shared.
  void on_cancel(async::Callback then) { on_cancel_ = std::make_unique<async::Callback>(std::move(then)); }
  /// Returns a new pending cell of the same Runtime.
  CellHandle sibling() const { return make(room_); }
  /// Blocks this thread until the cell is ready or until the deadline. Unlike wait() it does nothing about the call
  /// that this thread may be running.
  void park(Deadline deadline) { room_->wait(word_, deadline); }

  /// Returns the room where threads wait for this result. It outlives the cell.
  actors::WaitingRoom& room() { return *room_; }

  /// Returns the object store for a large value of this cell. Null if the Runtime has ended; the value then goes to
  /// private memory.
  std::shared_ptr<actors::LargeValues> large_values() const;

  /// Runs `then` once the cell is ready, on the thread that completes it; if it is ready already, at once on this
  /// thread. `then` must be quick, and must take no lock that is held while cells are completed. `watcher` names the
  /// callback for forget().
  void when_ready(async::Callback then, const void* watcher = nullptr);
  /// Drops the callbacks of this watcher. One that has begun may still be running.
  void forget(const void* watcher);
  /// Runs a user's callback, which may take long, once the cell is ready: on the Runtime's thread for callbacks; after
  /// the Runtime's end, on the thread that completes the cell or calls this.
  void call_back(async::Callback then);
  /// Runs `then` on any thread once wait() would not block, which holds for as long as `kept` is kept. `kept` is null
  /// if nothing has to be kept, or if the value cannot be read, which wait() then reports.
  void when_readable(async::UniqueFunction<void(std::shared_ptr<const void> kept)> then);

 private:
  struct Watch {
    async::Callback then;
    const void* watcher;
  };

  explicit ResultCell(std::shared_ptr<actors::WaitingRoom> room) noexcept : room_{std::move(room)} {}

  /// The parts of a value that are not stored in the cell itself.
  struct Elsewhere {
    Stored stored;                       // the value, if there is an object
    Bytes bytes;                         // the value, if these bytes have an owner
    std::optional<std::uint64_t> count;  // comes before the bytes, which are then so many elements
    ActorHandles actors;
  };
  void keep(ActorHandles&& actors) {
    if (!actors.empty()) [[unlikely]]
      elsewhere().actors = std::move(actors);
  }
  Elsewhere& elsewhere() {
    if (elsewhere_ == nullptr) elsewhere_ = std::make_unique<Elsewhere>();
    return *elsewhere_;
  }

  Result<Encoded> value_elsewhere(Deadline deadline) const;
  Result<Encoded> made_again(const Error& why, Deadline deadline) const;
  void complete();

  std::atomic<std::uint32_t> references_ = 1;  // the last release() must see what the others did: acquire and release
  std::atomic<std::uint32_t> word_ = actors::WaitingRoom::kPending;  // kReady publishes the members below
  std::shared_ptr<actors::WaitingRoom> room_;
  CellCall call_;
  std::atomic<bool> completed_ = false;  // set by the thread that completes the cell, before the cell is ready
  std::unique_ptr<Elsewhere> elsewhere_;
  std::unique_ptr<Error> error_;
  std::unique_ptr<std::vector<Watch>> watchers_;
  std::unique_ptr<async::Callback> on_cancel_;
  SmallBytes bytes_;  // first the arguments, then the value
};

}  // namespace pharos::detail
