#pragma once

#include <vector>

#include <pharos/actors/runtime_options.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::actors {

/// Returns the files that go with this program to nodes that lack them: the shared libraries that it has loaded
/// (process::libraries_to_send()) and what RuntimeOptions::with names. A library that cannot be read, or is too large,
/// is left out, with a warning in the log. Reads files that have no build id. kInvalidArgument if `with` names what is
/// not there or not in the program's folder; kUnsupported if these are more than 4096 files or 4 GiB; an error of the
/// system. Any thread.
Result<std::vector<wire::ProgramFile>> files_taken_along(const RuntimeOptions& options);

}  // namespace pharos::actors
