#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/error.hpp>
#include <pharos/base/id.hpp>
#include <pharos/object_store/store_client.hpp>
#include <pharos/wire/frame.hpp>

namespace pharos::detail {

/// One call of a function, without its arguments. A value.
struct CallDescription {
  wire::FrameKind kind = wire::FrameKind::kCall;
  std::uint8_t attempt = 0;
  std::uint8_t flags = wire::kNoFlags;  ///< wire::FrameFlags of the arguments
  std::uint8_t max_retries = 0;         ///< how often the call may be run again; a task also by another worker
  bool unordered = false;               ///< the call need not wait for earlier ones whose arguments are not ready
  bool one_way = false;                 ///< nobody waits for the result; an error goes to the log
  bool foreign = false;                 ///< the callee may be of another build, and knows the function by another index
  std::uint32_t function = 0;           ///< its index in this program's table
  std::uint32_t index_there = 0;        ///< for a foreign call: what the callee gets as the function's index
  std::uint32_t retry_on = 0;  ///< exceptions for which the call is run again: 1 + their index in the table; 0: none
  TraceId trace;
  async::Deadline deadline = async::Deadline::never();
};

/// The call that brings the result of a cell, and what is kept for it. Owned by the cell. It stays there while the
/// result is pending, so that it can be sent, and sent again. Used by the object that is about to send the call;
/// cancelled(), forced() and what sets them, and awaits_arguments(), by any thread, and let_go() by the thread that
/// completes the cell.
class CellCall final : public CallDescription {
 public:
  void set(const CallDescription& call) { static_cast<CallDescription&>(*this) = call; }

  /// Until note_complete() the call has no arguments, and must not be sent.
  void await_arguments() { awaits_arguments_.store(true, std::memory_order_relaxed); }
  void note_complete() { awaits_arguments_.store(false, std::memory_order_release); }
  bool awaits_arguments() const { return awaits_arguments_.load(std::memory_order_acquire); }

  /// Marks the call as cancelled: whoever has it does not send it again.
  void note_cancelled() { cancelled_.store(true); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  /// Marks the call as cancelled by force. Comes before note_cancelled(), on the same thread.
  void note_forced() { forced_.store(true, std::memory_order_relaxed); }
  bool forced() const { return forced_.load(std::memory_order_relaxed); }

  /// Keeps `kept` alive until the result is ready. Only before the call is sent.
  void keep(std::shared_ptr<const void> kept) {
    if (kept_ == nullptr) kept_ = std::make_unique<Kept>();
    kept_->all.push_back(std::move(kept));
  }
  /// The same for an object to which the arguments refer directly, and not through a Ref.
  void keep_argument(std::shared_ptr<object_store::Object> object) {
    keep(object);
    kept_->own_arguments.push_back(std::move(object));
  }
  std::span<const std::shared_ptr<object_store::Object>> own_arguments() const {
    if (kept_ == nullptr) return {};
    return kept_->own_arguments;
  }
  /// The result is ready: lets go of what was kept.
  void let_go() {
    if (kept_ != nullptr) [[unlikely]]
      kept_.reset();
  }
  /// The outcome of a call that fails while it is not sent. kUnknown if an earlier attempt was sent and may have run.
  Outcome outcome_unsent() const { return attempt == 0 ? Outcome::kNotStarted : Outcome::kUnknown; }

 private:
  struct Kept {
    std::vector<std::shared_ptr<const void>> all;
    std::vector<std::shared_ptr<object_store::Object>> own_arguments;  // those of keep_argument()
  };
  std::atomic<bool> awaits_arguments_ = false;  // its end publishes the arguments, which another thread has set
  std::atomic<bool> cancelled_ = false;         // a hint, and relaxed: the call may also be cancelled after it was sent
  std::atomic<bool> forced_ = false;            // relaxed: it is read by the thread that sets it
  std::unique_ptr<Kept> kept_;
};

}  // namespace pharos::detail
