#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>

#include "manifest.hpp"

namespace pharos::ml {

/// A rank's part: a file of safetensors, whose tensors are the entries, one behind the other in `bytes`. On disk when
/// this comes back. Fills in the entries' places and checksums.
Result<void> write_part(const std::filesystem::path& folder, Part& part, std::span<const std::byte> bytes,
                        const std::string& id, const Moment& moment);

constexpr const char* kDiskRemedy = "Make room, or give a folder of another disk.";
/// From errno. kUnavailable is of peers, which may be dead, or come again: of a disk it is kFailedPrecondition.
Error disk_error(const std::string& what, int error_number);

/// A small file, whole or not at all.
Result<void> write_text(const std::filesystem::path& path, const std::string& text);
Result<std::string> read_text(const std::filesystem::path& path);
/// What has been named in it lasts.
Result<void> sync_folder(const std::filesystem::path& folder);

}  // namespace pharos::ml
