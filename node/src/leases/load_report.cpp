#include "leases/load_report.hpp"

#include <chrono>
#include <cstdint>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLoadTime = 100ms;  // between two reports of what tasks use
constexpr Duration kLinesTime = 1s;    // between two reports of what tasks wait for, which only users look at
constexpr std::size_t kLinesMax = 16;  // lines of waiting tasks in such a report

}  // namespace

void LoadReport::note_change() {
  const bool is_known = told_ && book_.leases().tasks().amounts() == told_->tasks;
  if (is_known && book_.leases().waiting() == told_waiting_) return;
  const TimePoint when = executor_.now() + (is_known ? kLinesTime : kLoadTime);
  if (tells_at_ && *tells_at_ <= when) return;
  tells_at_ = when;
  executor_.run_at(when, [this, when] {
    if (tells_at_ != when) return;
    tells_at_.reset();
    if (load() != told_) tell();
  });
}

void LoadReport::tell() {
  told_ = load();
  told_waiting_ = book_.leases().waiting();
  head_.tell(*told_);
}

void LoadReport::tell_again() {
  if (told_ && *told_ != wire::NodeLoad{}) head_.tell(*told_);
}

wire::NodeLoad LoadReport::load() const {
  wire::NodeLoad load{book_.leases().tasks().amounts(), {}};
  for (const auto& [demand, workers] : book_.leases().waiting_for(kLinesMax)) {
    load.waiting.push_back({demand.amounts(), static_cast<std::uint32_t>(workers)});
  }
  return load;
}

}  // namespace pharos::node
