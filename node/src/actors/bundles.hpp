#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <pharos/scheduler/leases.hpp>
#include <pharos/wire/message.hpp>

#include "leases/lease_book.hpp"
#include "node/site.hpp"

namespace pharos::node {

/// The bundles of placement groups that this node has reserved, or reserves as soon as tasks have left what they need.
/// The LeaseBook gives the resources of a bundle to the actors and tasks of its group. A head that has started again
/// may release a bundle before the processes in it have ended. So a bundle is given back only when no process uses it.
/// Owned by Incarnations; on the node's strand. The destructor gives nothing back.
class Bundles {
 public:
  struct Bundle {
    scheduler::ReservationId reservation;
    scheduler::Allotment allotment;
    bool held = false;
    std::vector<scheduler::ReservationId> starting{};  ///< incarnations that may ask for a part once it is held
  };

  Bundles(Site& site, LeaseBook& book) : site_{site}, book_{book} {}

  /// The head wants the bundle to be reserved. The head is told when that is done, which waits for tasks without a
  /// limit.
  void hold(const wire::HoldBundle& hold);
  /// A reservation has its resources. If it is that of a bundle, returns the incarnations that wait for the bundle.
  std::vector<scheduler::ReservationId> on_reserved(scheduler::ReservationId reservation);
  /// The head gives the bundle up; unknown bundles are ignored. Incarnations that wait for the bundle are not told.
  void release(const BundleKey& key);
  /// Gives back the bundles that were released and are not used any more.
  void release_unused();

  enum class Turn : std::uint8_t {
    kNow,
    kLater,  ///< on_reserved() will return it
    kNever,  ///< there is no such bundle
  };
  /// An incarnation wants to start in the bundle. `reservation` stands for the incarnation, which then asks the Leases
  /// of the bundle for its part.
  Turn start_in(const BundleKey& key, scheduler::ReservationId reservation);

  const std::map<BundleKey, Bundle>& all() const { return bundles_; }
  /// The number of bundles, and of those that are released and still used.
  std::size_t size() const { return bundles_.size(); }
  std::size_t leaving() const { return leaving_.size(); }

 private:
  Site& site_;
  LeaseBook& book_;
  std::map<BundleKey, Bundle> bundles_;
  std::vector<scheduler::ReservationId> leaving_;  // released bundles that a process may still use
};

/// What the head has given to an actor or to a bundle.
scheduler::Allotment allotment_of(const wire::Amounts& amounts, const std::vector<wire::GpuShare>& gpus);

}  // namespace pharos::node
