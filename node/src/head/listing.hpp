#pragma once

#include <cstddef>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/wire/message.hpp>

#include "head/actors/actor_places.hpp"
#include "head/group_table.hpp"
#include "head/job_table.hpp"
#include "head/node_table.hpp"

namespace pharos::node::head {

/// Answers users' questions: the head's nodes, actors, groups and jobs as rows of texts, and what the actors of a
/// program do. Changes nothing, and answers at once. Owned by Head; on its strand.
class Listing {
 public:
  Listing(const NodeTable& nodes, const JobTable& jobs, const GroupTable& groups, const scheduler::ActorTable& actors,
          const ActorPlaces& places, const scheduler::Placement& placement)
      : nodes_{nodes}, jobs_{jobs}, groups_{groups}, actors_{actors}, places_{places}, placement_{placement} {}

  /// The number of records that this head and earlier ones have set aside.
  void note_set_aside(std::size_t records) { set_aside_ = records; }

  /// Answers ListRows (`pharos list`): kInvalidArgument if there is no such table or column. Long answers are cut: see
  /// select_rows(). Nodes that offer no resources have no rows.
  Result<wire::Rows> list(const wire::ListRows& asked) const;
  /// Answers ListNodes: the nodes that offer resources.
  wire::NodesListed list_nodes(const wire::ListNodes& asked) const;
  /// Answers Inspect: what the actors of the asker's program do, with a few thousand of them at most. Says of actors at
  /// other nodes than `from` where they are. The answer for an unknown program has no actors.
  wire::Inspected inspect(NodeId from, const wire::Asker& asker) const;

 private:
  wire::Rows rows_of_nodes() const;
  wire::Rows list_actors(std::size_t first) const;
  wire::Rows list_groups() const;
  wire::Rows list_jobs() const;
  wire::Rows list_pending(std::size_t first) const;
  void list_waiting_tasks(wire::Rows& to) const;

  const NodeTable& nodes_;
  const JobTable& jobs_;
  const GroupTable& groups_;
  const scheduler::ActorTable& actors_;
  const ActorPlaces& places_;
  const scheduler::Placement& placement_;
  std::size_t set_aside_ = 0;
};

}  // namespace pharos::node::head
