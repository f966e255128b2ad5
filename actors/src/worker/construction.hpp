#pragma once

#include <optional>

#include <pharos/base/error.hpp>
#include <pharos/wire/message.hpp>

#include "worker/workplace.hpp"

namespace pharos::actors {

/// Constructs the actor of a worker. Returns why it could not be constructed, or nullopt. On the strand.
std::optional<Error> construct_actor(Workplace& workplace, const wire::ConstructActor& actor);

}  // namespace pharos::actors
