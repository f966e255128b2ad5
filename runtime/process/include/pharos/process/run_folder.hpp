#pragma once

#include <string>

#include <pharos/base/result.hpp>

namespace pharos::process {

/// A run folder is the folder of one cluster or node on this machine, with its sockets, token and lock. It exists as
/// long as its daemon or keeper. Both processes know its name before it is made, so that the one which is left removes
/// it. If both were killed at once, or after a power failure, the next start on the machine removes the folder. Any
/// thread may call these functions; they block while they use the disk.

/// Makes the base folder `<PHAROS_FOLDER, else TMPDIR, else /tmp>/pharos-<uid>` with mode 0700 if it does not exist,
/// and returns its path. Fails with kPermissionDenied if other users own it or may enter it, and otherwise with the
/// error of errno.
Result<std::string> ensure_base_folder();

/// Returns an unused random name below the base folder. Makes no folder.
std::string new_run_folder_name(const std::string& base);

/// Makes a run folder with mode 0700, and a lock in it that this process holds until it ends. Fails with kAlreadyExists
/// if the path exists, and with the error of errno; a folder that has no lock then may be left.
Result<void> make_run_folder(const std::string& path);

/// Removes a run folder and its content. Never fails: a part that cannot be removed is left for sweep_run_folders().
void remove_run_folder(const std::string& path);

/// Removes the run folders whose processes are gone: those whose lock is free, and those without a lock that are older
/// than a minute. Leaves what it cannot remove, without an error.
void sweep_run_folders(const std::string& base);

}  // namespace pharos::process
