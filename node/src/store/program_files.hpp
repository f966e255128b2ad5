#pragma once

#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

/// The files of programs whose drivers are at other nodes: their executables, shared libraries, and other files that
/// they take along. They are used at their own paths where those exist, and otherwise as they were received
/// (received_files.hpp, program_transfer.hpp).
/// The functions here block: ReactorHost runs them on a thread where they may. They may run at the same time.
namespace pharos::node {

/// What this machine has of a program. A value; closing `executable` also unlocks the file. Who gets it removes
/// `own_folder` when the program's job ends.
struct ProgramHere {
  /// The content of files that are not on this machine. If there are any, nothing else is set.
  std::vector<wire::BuildId> missing{};
  Fd executable{};
  /// The folder that its workers start in: the program's. One of this node if that does not exist, or lacks files that
  /// the program takes along.
  std::string folder{};
  std::string own_folder{};        ///< a folder for this job alone, with links to its files; empty: it needs none
  std::string libraries_folder{};  ///< where the loader finds its libraries; empty: where it finds the driver's
};
/// The path of one of the program's files where it is not received.
std::string own_path_of(const wire::RegisterJob& program, const wire::ProgramFile& file);
/// Looks for the files of a program: at their own paths, or in `folder` if they were received before. Opens the
/// executable if nothing is missing. kInvalidArgument if the program names files by paths that lead out of its folder;
/// an error of the system if no folder for its workers can be made.
Result<ProgramHere> open_program(const std::string& folder, const wire::RegisterJob& program);

/// Removes the own folders of jobs that an earlier daemon of this node left behind.
void remove_own_folders(const std::string& folder);

}  // namespace pharos::node
