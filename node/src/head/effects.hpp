#pragma once

#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/placement.hpp>

namespace pharos::node::head {

/// Carries out what the head's tables decide. A part of the head that calls ActorTable or Placement passes the effects
/// on to here, because most effects concern other parts too. Implemented by Head; on its strand. apply() runs the
/// effects before it returns, and these may change the tables of the part that calls it. Nobody destroys a head through
/// this class.
class Effects {
 public:
  virtual void apply(const scheduler::ActorEffects& effects) = 0;
  virtual void apply(const scheduler::PlacementEffects& effects) = 0;

 protected:
  ~Effects() = default;
};

}  // namespace pharos::node::head
