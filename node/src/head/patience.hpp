#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <pharos/base/clock.hpp>
#include <pharos/base/error.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node::head {

/// How long a demand that no node could ever meet waits for a node that joins (Demand::wait_ms). Pure functions, for
/// the parts of the head that keep such demands. A time of more than a year is a year, so that sums do not overflow.
inline Duration patience_of(const wire::Demand& demand) {
  constexpr std::int64_t kYear = std::int64_t{365} * 24 * 3600 * 1000;
  return std::chrono::milliseconds{demand.wait_ms < 0 ? 0 : (demand.wait_ms > kYear ? kYear : demand.wait_ms)};
}

/// The refusal of such a demand, once its time is over.
inline Error waited_in_vain(Error why, Duration waited) {
  if (waited == Duration{}) return why;
  const double seconds = std::chrono::duration<double>(waited).count();
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return std::move(why).with("no node that could run it has joined within " + text + " s");
}

}  // namespace pharos::node::head
