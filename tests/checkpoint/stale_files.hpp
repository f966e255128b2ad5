#pragma once

#include <cstdint>
#include <filesystem>

namespace pharos {

// The program's own open(), opendir(), pread() and stat(), which fail where a test wants it, as they do on a disk that
// machines share when a server has lost what it had given out.

enum class FileCall : std::uint8_t { kNone, kOpen, kRead, kLook };

/// From now on that call fails with ESTALE for that file or folder, in this process.
void make_stale(FileCall call, const std::filesystem::path& path);
void make_none_stale();

}  // namespace pharos
