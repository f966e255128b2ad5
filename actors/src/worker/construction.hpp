#pragma once

#include <optional>

#include <pharos/base/error.hpp>
#include <pharos/wire/message.hpp>

#include "worker/workplace.hpp"

namespace pharos::actors {

/// Constructs the actor of a worker. Returns why it could not be constructed, or nullopt: kFunctionNotFound if the
/// constructor is not in the table; kActorDied if it threw or an argument is missing, with the exception itself if its
/// type is declared. CallServer calls it, on the workplace's strand, where it runs the user's constructor. The Instance
/// of the workplace owns the new object.
std::optional<Error> construct_actor(Workplace& workplace, const wire::ConstructActor& actor);

}  // namespace pharos::actors
