#pragma once

#include <string>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

/// The folder in which a node keeps the files of programs that it has received, each named by its content
/// (wire::ProgramFile). A file is in use as long as a job has it open and locked, or a job's own folder has a link to
/// it. Functions of any thread, also at the same time; they block.
namespace pharos::node {

std::string path_of_received(const std::string& folder, const wire::BuildId& content);
/// Opens a received file, and locks it as long as it is open. Empty if it was not received.
Fd open_received(const std::string& folder, const wire::BuildId& content);
/// Opens the file at this path if it has the size and the content that a program means. Otherwise empty.
Fd open_if_it_is(const std::string& path, const wire::ProgramFile& file);
/// Opens the regular file at this path to read it. Empty if there is none, or it cannot be read.
Fd open_regular(const std::string& path);

/// Makes a folder for this user alone, if it is not there. An error of the system.
Result<void> make_folder(const std::string& path);
/// Makes room for as many bytes: removes files that no job uses, those first that were not used for longest. Up to 1
/// GiB of them stay if there is room. kExhausted if there is not enough room without them, kPermissionDenied if no
/// program may be run from the folder, or an error of the system.
Result<void> make_room(const std::string& folder, ByteCount size);

}  // namespace pharos::node
