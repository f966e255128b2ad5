#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "manifest.hpp"

// A training's folder:
//   newest                        the name of the checkpoint that was complete last
//   step-000000001200-1a2b3c4d/   a checkpoint, named by its step and id
//     rank-00000.safetensors      what each rank has written
//     rank-00000.json             what it says of that; gone when there is a manifest
//     rank-00000.json.failed      or why it could not write that
//     manifest.json               there is one when all ranks' parts are there: then it is a checkpoint
//   step-000000001300-5e6f7a8b.aside/   a checkpoint that could not be read, or of a step that the training has gone
//                                       back before: it does not count any more, and nothing removes it
//
// A save writes the parts, then the manifest; then what is of later steps goes aside, and only then what is too old
// goes. Killed anywhere, a training has what it had before, or what it has saved.

namespace pharos::ml {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kNewestFile = "newest";

std::string folder_name(std::uint64_t step, const std::string& id);
std::string part_file_name(std::uint32_t rank);
std::string part_text_name(std::uint32_t rank);

/// Of those that have a manifest, whether that can be read or not, and count; the newest step first.
std::vector<std::string> complete_in(const std::filesystem::path& folder);
/// Of those, what is of a later step than `name`, whether that is there or not.
std::vector<std::string> later_in(const std::filesystem::path& folder, const std::string& name);
/// What an interrupted save has left, and what was being removed.
void remove_incomplete(const std::filesystem::path& folder);
/// It does not count any more. Returns what it is called then.
Result<std::string> set_aside(const std::filesystem::path& folder, const std::string& name);
/// It is none any more before anything of it is gone.
Result<void> remove_checkpoint(const std::filesystem::path& folder, const std::string& name);

Result<Manifest> read_manifest(const std::filesystem::path& checkpoint);

}  // namespace pharos::ml
