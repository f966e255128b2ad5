#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/base/error.hpp>

#include "waiting_room.hpp"

namespace pharos::detail {

/// One result: pending, then for ever a value or an error. Shared by its Refs and by the call that will complete it.
/// A small value lives in the cell, so that a call allocates nothing but this.
class ResultCell {
 public:
  static CellHandle make(std::shared_ptr<actors::WaitingRoom> room) {
    return CellHandle{new ResultCell{std::move(room)}};
  }

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool ready() const { return word_.load(std::memory_order_acquire) == actors::WaitingRoom::kReady; }

  // Once, one of the two.
  void set_value(std::span<const std::byte> bytes) {
    size_ = bytes.size();
    std::byte* to = inline_.data();
    if (size_ > inline_.size()) {
      large_ = std::make_unique_for_overwrite<std::byte[]>(size_);
      to = large_.get();
    }
    if (size_ != 0) std::memcpy(to, bytes.data(), size_);
    room_->complete(word_);
  }
  void set_error(Error error) {
    error_ = std::make_unique<Error>(std::move(error));
    room_->complete(word_);
  }

  Result<std::span<const std::byte>> wait(Deadline deadline) {
    if (!ready()) room_->wait(word_, deadline);
    if (!ready() && room_->abandoned()) {
      return Error{ErrorCode::kRuntimeStopped, "this process is a child of fork(), and the result comes to its parent"};
    }
    if (!ready()) {
      return Error{ErrorCode::kDeadlineExceeded, "the result did not come in the time given; the call goes on"}
          .with_outcome(Outcome::kUnknown);
    }
    if (error_ != nullptr) return *error_;
    return std::span<const std::byte>{large_ != nullptr ? large_.get() : inline_.data(), size_};
  }

 private:
  explicit ResultCell(std::shared_ptr<actors::WaitingRoom> room) : room_{std::move(room)} {}

  std::atomic<std::uint32_t> references_ = 1;
  std::atomic<std::uint32_t> word_ = actors::WaitingRoom::kPending;
  std::shared_ptr<actors::WaitingRoom> room_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> large_;
  std::unique_ptr<Error> error_;
  std::array<std::byte, 48> inline_;
};

}  // namespace pharos::detail
