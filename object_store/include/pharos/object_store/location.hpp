#pragma once

#include <pharos/base/error.hpp>
#include <pharos/base/object_location.hpp>

namespace pharos::object_store {

using Place = ObjectPlace;
using Location = ObjectLocation;

/// There is no such object any more: kOwnerDied or kObjectLost.
Error lost(const Location& location, bool owner_has_ended = false);
/// Whether that is what it says.
bool is_lost(const Error& error);

}  // namespace pharos::object_store
