#pragma once

// What a head needs to go on where another one stopped: what nodes report, and what it has written down.

#include <optional>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"

namespace pharos::wire {

void write_report(schema::Report::Builder to, const Report& from);
Report read_report(schema::Report::Reader from);
void write_life(schema::ActorLife::Builder to, const ActorLife& from);
/// Nothing when it ended for no reason that there is.
std::optional<ActorLife> read_life(schema::ActorLife::Reader from);
void write_places(schema::GroupPlaces::Builder to, const GroupPlaces& from);
GroupPlaces read_places(schema::GroupPlaces::Reader from);

}  // namespace pharos::wire
