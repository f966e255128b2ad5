#pragma once

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::process {

/// Of an open executable: its linker's build id, or a hash of all its bytes where it has none, which is read whole for
/// that. Two processes with the same one have the same table of functions, on whatever machine they are.
Result<wire::BuildId> build_id_of(int executable);

/// Of this process.
wire::BuildId own_build_id();

}  // namespace pharos::process
