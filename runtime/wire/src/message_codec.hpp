#pragma once

#include <optional>

#include <pharos/wire/message.hpp>

#include "control.capnp.h"

namespace pharos::wire {

void write_message(schema::Message::Builder to, const Message& message);
/// Returns nullopt if a field has a value that no sender of this version writes.
std::optional<Message> read_message(schema::Message::Reader from);

}  // namespace pharos::wire
