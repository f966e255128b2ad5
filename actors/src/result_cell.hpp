#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/error.hpp>
#include <pharos/wire/frame.hpp>

#include "waiting_room.hpp"

namespace pharos::detail {

/// One result: pending, with the call that will bring it, then for ever a value or an error. Shared by its Refs and by
/// the call. Small arguments and a small value live in the cell, one after the other in the same place, so that a call
/// allocates nothing but this.
/// Threads: the call belongs to whoever is to send it; completing happens once; everything else from any thread.
class ResultCell {
 public:
  /// What brings the result. Kept while it is pending, so that it can be sent, and sent again.
  struct Call {
    wire::FrameKind kind = wire::FrameKind::kCall;
    std::uint8_t attempt = 0;
    std::uint32_t function = 0;
  };

  static CellHandle make(std::shared_ptr<actors::WaitingRoom> room) {
    return CellHandle{new ResultCell{std::move(room)}};
  }

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  void set_call(const Call& call, std::span<const std::byte> arguments) {
    call_ = call;
    store(arguments);
  }
  Call& call() { return call_; }
  std::span<const std::byte> arguments() const { return bytes(); }

  bool ready() const { return word_.load(std::memory_order_acquire) == actors::WaitingRoom::kReady; }

  // Once, one of the two.
  void set_value(std::span<const std::byte> bytes) {
    store(bytes);
    complete();
  }
  void set_error(Error error) {
    error_ = std::make_unique<Error>(std::move(error));
    complete();
  }

  Result<std::span<const std::byte>> wait(Deadline deadline);
  /// The waiting alone, with nothing done about the call that this thread may be running.
  void park(Deadline deadline) { room_->wait(word_, deadline); }

  /// Runs `then` once it is ready: on the thread that completes it, so it must be quick and take no lock that is held
  /// while cells are completed; or at once, if it is ready.
  void when_ready(async::Callback then);

 private:
  explicit ResultCell(std::shared_ptr<actors::WaitingRoom> room) : room_{std::move(room)} {}

  void store(std::span<const std::byte> bytes);
  std::span<const std::byte> bytes() const { return {large_ != nullptr ? large_.get() : inline_.data(), size_}; }
  void complete();

  std::atomic<std::uint32_t> references_ = 1;
  std::atomic<std::uint32_t> word_ = actors::WaitingRoom::kPending;
  std::shared_ptr<actors::WaitingRoom> room_;
  Call call_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> large_;
  std::unique_ptr<Error> error_;
  std::unique_ptr<std::vector<async::Callback>> watchers_;
  std::array<std::byte, 48> inline_;
};

}  // namespace pharos::detail
