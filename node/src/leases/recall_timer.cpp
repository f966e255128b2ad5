#include "leases/recall_timer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRecallTime = 5ms;         // between two looks
constexpr int kQuietLooksMax = 20;            // looks in a row that recall nothing, before they become rarer
constexpr Duration kQuietRecallTime = 100ms;  // between two looks after that
constexpr Duration kRecallTimeOfEach = 5us;   // added to both for each request that waits

}  // namespace

void RecallTimer::note_change() {
  quiet_looks_ = 0;
  look_later();
}

void RecallTimer::look_later() {
  if (!book_.has_to_recall()) return;
  const auto waiting = static_cast<std::int64_t>(book_.waiting());
  const Duration pause = quiet_looks_ < kQuietLooksMax ? kRecallTime : kQuietRecallTime;
  const TimePoint when = executor_.now() + pause + waiting * kRecallTimeOfEach;
  if (looks_at_ && *looks_at_ <= when) return;
  looks_at_ = when;
  executor_.run_at(when, [this, when] {
    if (looks_at_ != when) return;
    looks_at_.reset();
    scheduler::LeaseEffects effects;
    book_.for_each([&](scheduler::Leases& leases) {
      std::ranges::move(leases.recall(executor_.now()), std::back_inserter(effects));
    });
    if (!effects.empty()) return book_.apply(effects);
    ++quiet_looks_;
    look_later();
  });
}

}  // namespace pharos::node
