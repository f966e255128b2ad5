#pragma once

#include <cstdint>
#include <filesystem>

namespace pharos {

// The program's own open(), opendir(), pread(), stat() and fsync(), which fail where a test wants it. They fail like a
// network disk whose server no longer knows its file handles.

enum class FileCall : std::uint8_t { kNone, kOpen, kRead, kLook, kSync };

/// From this call on, the given call fails with ESTALE for that file or folder, in this process.
void make_stale(FileCall call, const std::filesystem::path& path);
void make_none_stale();

}  // namespace pharos
