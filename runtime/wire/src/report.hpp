#pragma once

// Conversions between the Cap'n Proto schema and the messages with which a new head continues the work of an earlier
// head: the reports of nodes, and the records that the earlier head has stored.

#include <optional>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"

namespace pharos::wire {

void write_report(schema::Report::Builder to, const Report& from);
Report read_report(schema::Report::Reader from);
void write_life(schema::ActorLife::Builder to, const ActorLife& from);
/// Returns nullopt if the actor's final error is invalid.
std::optional<ActorLife> read_life(schema::ActorLife::Reader from);
void write_places(schema::GroupPlaces::Builder to, const GroupPlaces& from);
GroupPlaces read_places(schema::GroupPlaces::Reader from);

}  // namespace pharos::wire
