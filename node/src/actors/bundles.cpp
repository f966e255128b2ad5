#include "actors/bundles.hpp"

#include <algorithm>

#include "node/demands.hpp"

namespace pharos::node {

scheduler::Allotment allotment_of(const wire::Amounts& amounts, const std::vector<wire::GpuShare>& gpus) {
  return {scheduler::Resources{amounts}, shares_of(gpus)};
}

void Bundles::hold(const wire::HoldBundle& hold) {
  const scheduler::ReservationId reservation{site_.head.next_number()};
  bundles_.emplace(BundleKey{hold.group, hold.bundle}, Bundle{reservation});
  book_.apply(book_.leases().reserve(reservation, allotment_of(hold.amounts, hold.gpus), site_.executor.now()));
}

std::vector<scheduler::ReservationId> Bundles::on_reserved(scheduler::ReservationId reservation) {
  const auto found = std::find_if(bundles_.begin(), bundles_.end(),
                                  [&](const auto& entry) { return entry.second.reservation == reservation; });
  if (found == bundles_.end()) return {};
  found->second.held = true;
  site_.head.tell(wire::BundleHeld{found->first.first, found->first.second});
  return std::exchange(found->second.starting, {});
}

Bundles::Turn Bundles::start_in(const BundleKey& key, scheduler::ReservationId reservation) {
  const auto bundle = bundles_.find(key);
  if (bundle == bundles_.end()) return Turn::kNever;
  if (bundle->second.held) return Turn::kNow;
  bundle->second.starting.push_back(reservation);
  return Turn::kLater;
}

void Bundles::release(const BundleKey& key) {
  const auto released = bundles_.extract(key);
  if (released.empty()) return;
  leaving_.emplace(key, released.mapped().reservation);
  release_unused();
}

void Bundles::release_unused() {
  std::vector<scheduler::ReservationId> unused;
  std::erase_if(leaving_, [&](const auto& entry) {
    const bool is_used = is_used_(entry.first);
    if (!is_used) unused.push_back(entry.second);
    return !is_used;
  });
  for (const auto reservation : unused) book_.apply(book_.leases().release(reservation));
}

bool Bundles::has_resources(const BundleKey& key) const {
  const auto bundle = bundles_.find(key);
  return (bundle != bundles_.end() && bundle->second.held) || leaving_.contains(key);
}

}  // namespace pharos::node
