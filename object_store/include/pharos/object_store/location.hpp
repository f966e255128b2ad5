#pragma once

#include <pharos/base/error.hpp>
#include <pharos/base/object_location.hpp>

namespace pharos::object_store {

using Place = ObjectPlace;
using Location = ObjectLocation;

/// Makes the error for an object that does not exist any more: kOwnerDied if `owner_has_ended`, else kObjectLost.
Error lost(const Location& location, bool owner_has_ended = false);
/// Returns whether the error has one of these two codes.
bool is_lost(const Error& error);

}  // namespace pharos::object_store
