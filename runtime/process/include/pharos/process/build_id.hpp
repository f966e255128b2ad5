#pragma once

#include <pharos/wire/message.hpp>

namespace pharos::process {

/// The executable of this process: its linker's build id, or a hash of its path, size and time where it has none.
/// Two processes with the same one have the same table of functions.
wire::BuildId own_build_id();

}  // namespace pharos::process
