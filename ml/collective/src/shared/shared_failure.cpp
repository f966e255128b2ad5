#include "shared/shared_failure.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <pharos/ml/collective/operation.hpp>

namespace pharos::ml {

bool SharedFailure::write(const Error& why) {
  std::uint32_t none = 0;
  if (!shared_.state.compare_exchange_strong(none, kWritten + 1 + neighbours_.rank(), std::memory_order_acq_rel)) {
    return false;
  }
  shared_.code = static_cast<std::uint8_t>(why.code());
  const std::string text = told(why);
  std::memcpy(shared_.text, text.data(), std::min(text.size(), kTextMax - 1));
  shared_.state.store(kWritten, std::memory_order_seq_cst);
  return true;
}

std::optional<Error> SharedFailure::read() const {
  std::uint32_t state = shared_.state.load(std::memory_order_acquire);
  if (state == 0) return std::nullopt;
  // The rank that writes the error may have died meanwhile, or been stopped.
  const TimePoint patience = std::chrono::steady_clock::now() + std::chrono::seconds{1};
  for (; state != kWritten; state = shared_.state.load(std::memory_order_acquire)) {
    const std::uint32_t who = std::min(state - kWritten - 1, neighbours_.ranks() - 1);
    if (neighbours_.has_died(who)) return has_died(neighbours_.name(who), "the report of the group's failure");
    if (std::chrono::steady_clock::now() >= patience) {
      return Error{ErrorCode::kUnavailable,
                   "the group has failed, and the rank that noticed the failure did not write the reason in time",
                   "Look for a rank that is stopped."};
    }
    std::this_thread::yield();
  }
  return error_of(shared_.code, {shared_.text, ::strnlen(shared_.text, kTextMax)});
}

}  // namespace pharos::ml
