#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "manifest.hpp"

namespace pharos::ml {

/// A rank's part: a file of safetensors, whose tensors are the entries, one behind the other in `bytes`. On disk when
/// this comes back. Fills in the entries' places, and checksums.
Result<void> write_part(const std::filesystem::path& folder, RankPart& part, std::span<const std::byte> bytes,
                        const std::string& id, const Moment& moment);

/// Of one that is as long as it should be: kCorrupt when its head is another one.
Result<void> check_head(const Fd& file, const std::filesystem::path& path, const RankPart& part,
                        const Manifest& manifest);
/// ": it is of another checkpoint, of step 7", or what else its head says about why it is not what was written.
std::string strangeness(const std::filesystem::path& path, const Manifest& manifest);

constexpr const char* kDiskRemedy = "Make room, or give a folder of another disk.";
/// From errno. kUnavailable is of peers, which may be dead, or come again: of a disk it is kFailedPrecondition.
Error disk_error(const std::string& what, int error_number);

/// A small file, whole or not at all. One that is there after an error is whole, and perhaps not durable.
Result<void> write_text(const std::filesystem::path& path, const std::string& text);
Result<std::string> read_text(const std::filesystem::path& path);
Result<Fd> open_to_read(const std::filesystem::path& path);
/// As many bytes as there is room for. kCorrupt: the file is not that long, or the disk cannot read them.
Result<void> read_at(const Fd& file, const std::filesystem::path& path, std::uint64_t place, std::span<std::byte> to);
/// What has been named in it lasts.
Result<void> sync_folder(const std::filesystem::path& folder);

}  // namespace pharos::ml
