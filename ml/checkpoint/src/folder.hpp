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
//     manifest.json               there is one when all ranks' parts are there: then it is a checkpoint

namespace pharos::ml {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kNewestFile = "newest";

std::string folder_name(std::uint64_t step, const std::string& id);
std::string part_file_name(std::uint32_t rank);
std::string part_text_name(std::uint32_t rank);

/// Of those that have a manifest, whether that can be read or not; the newest step first.
std::vector<std::string> complete_in(const std::filesystem::path& folder);
/// What an interrupted save has left, and what was being removed.
void remove_incomplete(const std::filesystem::path& folder);
/// It is none any more before anything of it is gone.
Result<void> remove_checkpoint(const std::filesystem::path& folder, const std::string& name);

Result<Manifest> read_manifest(const std::filesystem::path& checkpoint);

}  // namespace pharos::ml
