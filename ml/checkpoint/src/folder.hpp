#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "manifest.hpp"

// A training's folder:
//   newest                        the name of the checkpoint that was complete last
//   owner                         an id of the process that has taken over the folder last
//   step-000000001200-1a2b3c4d/   a checkpoint, named by its step and id
//     rank-00000.safetensors      what each rank has written
//     manifest.json               what all of them have written
//   step-000000001300-5e6f7a8b.begun/   one that is being written, or was when that was interrupted
//     rank-00000.json             what a rank says of its part; gone when that is in a manifest
//     rank-00000.json.failed      or why it could not write that
//   step-000000001250-9c0d1e2f.aside/   a checkpoint that could not be read, or of a step that the training has gone
//                                       back before: it does not count any more, and nothing removes it
//   step-000000001100-3a4b5c6d.gone/    what is being removed
//
// A save writes the parts, then the manifest, and then its folder has the name of a checkpoint: one whose manifest is
// lost later has been a checkpoint, which is damage, and none that was interrupted. Then what is of later steps goes
// aside, and only then what is too old goes. Killed anywhere, a training has what it had before, or what it has saved.

namespace pharos::ml {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kNewestFile = "newest";
constexpr const char* kOwnerFile = "owner";

std::string folder_name(std::uint64_t step, const std::string& id);
/// What a checkpoint is called before it is one.
std::string begun_name(const std::string& name);
std::string part_file_name(std::uint32_t rank);
std::string part_text_name(std::uint32_t rank);

/// Those that were made checkpoints, whether they can be read or not, and count; the newest step first. kNotFound:
/// there is no such folder.
Result<std::vector<std::string>> complete_in(const std::filesystem::path& folder);
/// Whether `name` is of a later step than `than`.
bool is_later(const std::string& name, const std::string& than);
/// What interrupted saves have left, and what was being removed.
Result<std::vector<std::string>> incomplete_in(const std::filesystem::path& folder);

/// From now on it is a checkpoint.
Result<void> make_complete(const std::filesystem::path& folder, const std::string& name);
/// They do not count any more. The oldest goes first: killed in between, the newest is still there.
Result<void> set_aside(const std::filesystem::path& folder, const std::vector<std::string>& newest_first);
/// Whatever it is: it is none any more before anything of it is gone. Nothing happens where there is none.
Result<void> remove_checkpoint(const std::filesystem::path& folder, const std::string& name);

Result<Manifest> read_manifest(const std::filesystem::path& checkpoint);

}  // namespace pharos::ml
