#pragma once

// What a node says of itself when it is asked, to and from its schema.

#include <optional>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"

namespace pharos::wire {

void write_inspected(schema::Inspected::Builder to, const Inspected& from);
/// Nothing when it cannot be.
std::optional<Inspected> read_inspected(schema::Inspected::Reader from);

}  // namespace pharos::wire
