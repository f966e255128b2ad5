#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <pharos/base/id.hpp>
#include <pharos/scheduler/leases.hpp>

namespace pharos::node {

/// A bundle of a placement group. Without a group: no bundle.
using BundleKey = std::pair<GroupId, std::uint32_t>;

/// Who has the resources of this node: tasks by leases, actors and bundles by reservations. scheduler::Leases decides,
/// and this class has its decisions carried out, one after the other. What is set aside for a bundle is given out by
/// Leases of its own, in the same way: to the tasks and actors of its group. A bundle is known by its reservation at
/// the node, because a bundle that was given up may still be used when the same one comes back.
/// An effect may lead to more effects, which are carried out after the others. So the calls do not nest, however many
/// grants fail and go to the next request.
/// Owned by Node; on its strand. Whoever changes `leases()` passes the effects on to apply(). An apply() inside of
/// another one returns before its effects are carried out. The callbacks use parts of Node, which must live as long as
/// apply() is called. References to the Leases of a bundle are valid until it is dropped.
class LeaseBook {
 public:
  using CarryOut = std::function<void(const scheduler::LeaseEffect& effect)>;
  using Event = std::function<scheduler::LeaseEffects(scheduler::Leases& leases)>;

  /// `leases` are those of the node itself. `settled` runs after each apply() whose effects, and those that they led
  /// to, are carried out.
  LeaseBook(scheduler::Leases leases, CarryOut carry_out, std::function<void()> settled)
      : leases_{std::move(leases)}, carry_out_{std::move(carry_out)}, settled_{std::move(settled)} {}

  /// Makes Leases for these resources, with the limits that all Leases of a node have.
  static scheduler::Leases leases_of(const scheduler::Allotment& allotment);
  static scheduler::Leases leases_of(const scheduler::Resources& all);

  /// The Leases of the node. What its bundles have is reserved there.
  scheduler::Leases& leases() { return leases_; }
  const scheduler::Leases& leases() const { return leases_; }
  void apply(const scheduler::LeaseEffects& effects);
  /// Tells all Leases of an event that concerns some of them, and applies what follows. Leases ignore events about
  /// workers, reservations, callers and jobs that they do not know.
  void tell_all(const Event& event);

  // ---- Bundles

  /// The bundle has its resources, which may be given out from now on.
  void open(scheduler::ReservationId bundle, const BundleKey& key, const scheduler::Allotment& allotment);
  /// The bundle is given up: see Leases::close(). What its Leases have given out stays until it is given back.
  void close(scheduler::ReservationId bundle, TimePoint now);
  /// Forgets a closed bundle if nothing uses it any more. Returns whether it is forgotten.
  bool drop_if_unused(scheduler::ReservationId bundle);
  /// Returns the Leases of a bundle that is open, or of the node if the key has no group; else nullptr.
  scheduler::Leases* find(const BundleKey& key) { return find_in(*this, key); }
  const scheduler::Leases* find(const BundleKey& key) const { return find_in(*this, key); }

  // ---- All Leases together

  /// Calls `function(leases)` for each of the Leases.
  template <class F>
  void for_each(F&& function) {
    function(leases_);
    for (auto& [id, bundle] : bundles_) function(bundle.leases);
  }
  template <class F>
  void for_each(F&& function) const {
    function(leases_);
    for (const auto& [id, bundle] : bundles_) function(bundle.leases);
  }
  /// Returns the Leases that start a worker for this request; those of the node if none do.
  scheduler::Leases& starting(scheduler::LeaseRequestId request);
  std::optional<CallerId> lessee_of(WorkerId worker) const;
  scheduler::Resources held_by(WorkerId worker) const;
  bool starts(scheduler::LeaseRequestId request) const;
  bool holds(scheduler::ReservationId reservation) const;
  std::size_t idle() const;
  std::size_t waiting() const;
  std::size_t reservations() const;
  bool has_to_recall() const;
  /// For tests, between two events: what is wrong with the books, and what was not given back. Empty if all is well.
  std::string check() const;
  std::string leftovers() const;

 private:
  struct Bundle {
    BundleKey key;
    bool open = true;
    scheduler::Leases leases;
  };
  template <class Book>
  static auto find_in(Book& book, const BundleKey& key) -> decltype(&book.leases_) {
    if (!key.first) return &book.leases_;
    for (auto& [id, bundle] : book.bundles_) {
      if (bundle.open && bundle.key == key) return &bundle.leases;
    }
    return nullptr;
  }

  scheduler::Leases leases_;
  std::map<scheduler::ReservationId, Bundle> bundles_;
  const CarryOut carry_out_;
  const std::function<void()> settled_;
  std::deque<scheduler::LeaseEffect> effects_;  // still to be carried out
  bool applies_ = false;
};

}  // namespace pharos::node
