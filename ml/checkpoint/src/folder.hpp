#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "manifest.hpp"

// The folder of a training:
//   newest                        the name of the checkpoint that was completed last, or loaded by the process that
//                                 took over the folder
//   owner                         an id of the process that last took over the folder
//   step-000000001200-1a2b3c4d/   a checkpoint, named by its step and id
//     rank-00000.safetensors      the part of a rank
//     manifest.json               lists the parts of all ranks
//   step-000000001300-5e6f7a8b.begun/   a checkpoint that is being written, or whose save was interrupted
//     rank-00000.json             a rank's description of its part; removed when the manifest has it
//     rank-00000.json.failed      or the reason why the rank could not write its part
//   step-000000001250-9c0d1e2f.aside/   a checkpoint that could not be read, or of a step that the training has
//                                       gone back before: it does not count any more, and is never removed
//   step-000000001100-3a4b5c6d.gone/    a checkpoint that is being removed
//
// A save writes the parts, then the manifest, and then gives the folder the name of a checkpoint. So a checkpoint
// without a manifest was damaged, and not interrupted. After that, checkpoints of later steps are set aside, and only
// then old ones are removed. A training that is killed at any moment has either its previous checkpoint or the new one.
//
// Any thread may call the functions below. Where nothing else is said, errors are those of disk_error(). If memory runs
// out, std::bad_alloc is thrown.

namespace pharos::ml {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kNewestFile = "newest";
constexpr const char* kOwnerFile = "owner";

std::string folder_name(std::uint64_t step, const std::string& id);
/// Returns the name of the checkpoint's folder until the checkpoint is complete.
std::string begun_name(const std::string& name);
std::string part_file_name(std::uint32_t rank);
std::string part_text_name(std::uint32_t rank);

/// Returns the names of the checkpoints that were completed and still count, readable or not; the highest step first.
/// Returns kNotFound if the folder does not exist.
Result<std::vector<std::string>> complete_in(const std::filesystem::path& folder);
/// Returns whether `name` is a checkpoint of a later step than `than`.
bool is_later(const std::string& name, const std::string& than);
/// Returns the folders that interrupted saves or interrupted removals have left.
Result<std::vector<std::string>> incomplete_in(const std::filesystem::path& folder);

/// Turns the folder of a save into a checkpoint, which counts from then on. The caller syncs `folder` afterwards.
Result<void> make_complete(const std::filesystem::path& folder, const std::string& name);
/// Renames these checkpoints, so that they do not count any more. The oldest is renamed first: if the process is killed
/// in between, the newest one still counts. Ends with the first error of a renaming; what was renamed before stays
/// renamed. If a sync fails, all are renamed before its error is returned.
Result<void> set_aside(const std::filesystem::path& folder, const std::vector<std::string>& newest_first);
/// Removes a checkpoint or a folder that was begun. It is renamed first, so a checkpoint of which some files are gone
/// does not count. Does nothing if the folder does not exist. After an error incomplete_in() may find what is left.
Result<void> remove_checkpoint(const std::filesystem::path& folder, const std::string& name);

/// Returns kCorrupt if the manifest is missing or damaged, and kUnsupported if it has another format.
Result<Manifest> read_manifest(const std::filesystem::path& checkpoint);

}  // namespace pharos::ml
