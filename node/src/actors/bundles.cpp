#include "actors/bundles.hpp"

#include <algorithm>

#include "node/demands.hpp"

namespace pharos::node {

scheduler::Allotment allotment_of(const wire::Amounts& amounts, const std::vector<wire::GpuShare>& gpus) {
  return {scheduler::Resources{amounts}, shares_of(gpus)};
}

void Bundles::hold(const wire::HoldBundle& hold) {
  const scheduler::ReservationId reservation{site_.head.next_number()};
  const auto allotment = allotment_of(hold.amounts, hold.gpus);
  bundles_.emplace(BundleKey{hold.group, hold.bundle}, Bundle{reservation, allotment});
  book_.apply(book_.leases().reserve(reservation, allotment, site_.executor.now()));
}

std::vector<scheduler::ReservationId> Bundles::on_reserved(scheduler::ReservationId reservation) {
  const auto found = std::find_if(bundles_.begin(), bundles_.end(),
                                  [&](const auto& entry) { return entry.second.reservation == reservation; });
  if (found == bundles_.end()) return {};
  Bundle& bundle = found->second;
  bundle.held = true;
  book_.open(reservation, found->first, bundle.allotment);
  site_.head.tell(wire::BundleHeld{found->first.first, found->first.second});
  return std::exchange(bundle.starting, {});
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
  const scheduler::ReservationId reservation = released.mapped().reservation;
  leaving_.push_back(reservation);
  book_.close(reservation, site_.executor.now());
  release_unused();
}

void Bundles::release_unused() {
  std::vector<scheduler::ReservationId> unused;
  std::erase_if(leaving_, [&](scheduler::ReservationId bundle) {
    const bool is_unused = book_.drop_if_unused(bundle);
    if (is_unused) unused.push_back(bundle);
    return is_unused;
  });
  for (const auto reservation : unused) book_.apply(book_.leases().release(reservation));
}

}  // namespace pharos::node
