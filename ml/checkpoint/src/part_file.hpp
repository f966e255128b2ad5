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

// SaveWriter and SavedTensors call these functions. Any thread may call them, and they block it. Where nothing else is
// said, errors are those of disk_error(). If memory runs out, std::bad_alloc is thrown.

/// Writes the part of a rank: a safetensors file whose tensors are the entries, which lie one after the other in
/// `bytes` and fill it. Fills in the places and checksums of the entries. The contents are on disk when this returns,
/// but the file's name is only after sync_folder() or write_text(). After an error an incomplete file may be left.
Result<void> write_part(const std::filesystem::path& folder, RankPart& part, std::span<const std::byte> bytes,
                        const std::string& id, const Moment& moment);

/// Checks the head of a part whose size is right already. Returns kCorrupt if the head is not what was written. A part
/// without a checksum of its head passes.
Result<void> check_head(const Fd& file, const std::filesystem::path& path, const RankPart& part,
                        const Manifest& manifest);
/// Explains why a part is not what was written: ": it is of another checkpoint, of step 7", or what is wrong with its
/// head. Empty if the head belongs to this checkpoint.
std::string strangeness(const std::filesystem::path& path, const Manifest& manifest);

constexpr const char* kDiskRemedy = "Make room, or give a folder of another disk.";
/// Makes an error of errno. A disk gets kFailedPrecondition instead of kUnavailable, because kUnavailable is about
/// peers that may be dead or come back.
Error disk_error(const std::string& what, int error_number);

/// Writes a small file, entirely or not at all, and replaces one of that name. If this fails, the path has what it had
/// before, or the new file, which then is complete but may not survive a crash of the machine.
Result<void> write_text(const std::filesystem::path& path, const std::string& text);
Result<std::string> read_text(const std::filesystem::path& path);
Result<Fd> open_to_read(const std::filesystem::path& path);
/// Reads until `to` is full. Returns kCorrupt if the file is too short or the disk cannot read the bytes.
Result<void> read_at(const Fd& file, const std::filesystem::path& path, std::uint64_t place, std::span<std::byte> to);
/// Makes changes of names in the folder survive a crash of the machine.
Result<void> sync_folder(const std::filesystem::path& folder);

}  // namespace pharos::ml
