#pragma once

#include <string>

#include <pharos/base/result.hpp>

namespace pharos::process {

/// One cluster's or node's folder on this machine: sockets, token, lock. It exists as long as its daemon or keeper
/// does; both know its name before it is made, so that whichever is left removes it. Where both were killed at once, or
/// the power went, the next start on the machine does.

/// `<PHAROS_FOLDER, else TMPDIR, else /tmp>/pharos-<uid>`, made if need be, 0700. kPermissionDenied when it is not this
/// user's alone.
Result<std::string> ensure_base_folder();

/// A name below the base folder that nobody has; nothing is made.
std::string new_run_folder_name(const std::string& base);

/// Makes it, 0700, with a lock that this process holds until it ends.
Result<void> make_run_folder(const std::string& path);

/// Removes it with what is in it; no error when it is gone already.
void remove_run_folder(const std::string& path);

/// Removes the run folders whose processes are gone.
void sweep_run_folders(const std::string& base);

}  // namespace pharos::process
