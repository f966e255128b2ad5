#pragma once

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::process {

/// Returns the identity of an open executable, shared library, or other file: the build id from its linker, or a hash
/// of all its bytes if it has no build id. Two processes with the same identity have the same function table, even on
/// different machines. Blocks while it reads the file, and does not move its offset. Fails with the error of errno. Any
/// thread.
Result<wire::BuildId> build_id_of(int file);

/// Returns the identity of this process's executable. Aborts the process if the executable cannot be read.
wire::BuildId own_build_id();

}  // namespace pharos::process
