#include "leases/lease_book.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kIdleWorkerTime = 10s;

// Tasks that wait for other tasks keep their processes. Past this many processes a waiting task runs those tasks in its
// own process.
std::uint32_t workers_max(const scheduler::Resources& resources) {
  const auto cpus = (resources.cpus() + scheduler::Resources::kWhole - 1) / scheduler::Resources::kWhole;
  return static_cast<std::uint32_t>(4 * cpus + 4);
}

}  // namespace

scheduler::Leases LeaseBook::leases_of(const scheduler::Allotment& allotment) {
  return {allotment, workers_max(allotment.amounts), kIdleWorkerTime};
}

scheduler::Leases LeaseBook::leases_of(const scheduler::Resources& all) {
  return {all, workers_max(all), kIdleWorkerTime};
}

void LeaseBook::apply(const scheduler::LeaseEffects& effects) {
  effects_.insert(effects_.end(), effects.begin(), effects.end());
  if (std::exchange(applies_, true)) return;
  while (!effects_.empty()) {
    const scheduler::LeaseEffect effect = std::move(effects_.front());
    effects_.pop_front();
    carry_out_(effect);
  }
  applies_ = false;
  settled_();
}

void LeaseBook::tell_all(const Event& event) {
  scheduler::LeaseEffects effects;
  for_each([&](scheduler::Leases& each) { std::ranges::move(event(each), std::back_inserter(effects)); });
  apply(effects);
}

// ---- Bundles

void LeaseBook::open(scheduler::ReservationId bundle, const BundleKey& key, const scheduler::Allotment& allotment) {
  bundles_.emplace(bundle, Bundle{.key = key, .leases = leases_of(allotment)});
}

void LeaseBook::close(scheduler::ReservationId bundle, TimePoint now) {
  const auto found = bundles_.find(bundle);
  if (found == bundles_.end()) return;
  found->second.open = false;
  apply(found->second.leases.close(now));
}

bool LeaseBook::drop_if_unused(scheduler::ReservationId bundle) {
  const auto found = bundles_.find(bundle);
  if (found == bundles_.end()) return true;  // it was given up before it had its resources
  if (found->second.open || !found->second.leases.is_unused()) return false;
  bundles_.erase(found);
  return true;
}

// ---- All Leases together

scheduler::Leases& LeaseBook::starting(scheduler::LeaseRequestId request) {
  const auto found =
      std::ranges::find_if(bundles_, [&](const auto& entry) { return entry.second.leases.starts(request); });
  return found == bundles_.end() ? leases_ : found->second.leases;
}

std::optional<CallerId> LeaseBook::lessee_of(WorkerId worker) const {
  std::optional<CallerId> lessee;
  for_each([&](const scheduler::Leases& each) {
    if (const auto its = each.lessee_of(worker)) lessee = its;
  });
  return lessee;
}

scheduler::Resources LeaseBook::held_by(WorkerId worker) const {
  scheduler::Resources held;
  for_each([&](const scheduler::Leases& each) { held += each.held_by(worker); });
  return held;
}

bool LeaseBook::starts(scheduler::LeaseRequestId request) const {
  bool any = false;
  for_each([&](const scheduler::Leases& each) { any = any || each.starts(request); });
  return any;
}

bool LeaseBook::holds(scheduler::ReservationId reservation) const {
  bool any = false;
  for_each([&](const scheduler::Leases& each) { any = any || each.holds(reservation); });
  return any;
}

std::size_t LeaseBook::idle() const {
  std::size_t all = 0;
  for_each([&](const scheduler::Leases& each) { all += each.idle(); });
  return all;
}

std::size_t LeaseBook::waiting() const {
  std::size_t all = 0;
  for_each([&](const scheduler::Leases& each) { all += each.waiting(); });
  return all;
}

std::size_t LeaseBook::reservations() const {
  std::size_t all = 0;
  for_each([&](const scheduler::Leases& each) { all += each.reservations(); });
  return all;
}

bool LeaseBook::has_to_recall() const {
  bool any = false;
  for_each([&](const scheduler::Leases& each) { any = any || each.has_to_recall(); });
  return any;
}

std::string LeaseBook::check() const {
  std::string wrong;
  for_each([&](const scheduler::Leases& each) { wrong += each.check(); });
  return wrong;
}

std::string LeaseBook::leftovers() const {
  std::string left;
  for_each([&](const scheduler::Leases& each) {
    if (each.left() != each.total()) left += "not given back: all but " + each.left().to_string() + '\n';
  });
  if (!bundles_.empty()) left += "bundles that are given out: " + std::to_string(bundles_.size()) + '\n';
  return left;
}

}  // namespace pharos::node
