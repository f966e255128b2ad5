#pragma once

// Conversions between Inspected, the report of a node about itself, and its Cap'n Proto schema.

#include <optional>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"

namespace pharos::wire {

void write_inspected(schema::Inspected::Builder to, const Inspected& from);
/// Returns nullopt if a field has an invalid value.
std::optional<Inspected> read_inspected(schema::Inspected::Reader from);

}  // namespace pharos::wire
