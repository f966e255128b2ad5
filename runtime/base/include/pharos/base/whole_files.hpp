#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos {

/// Reads the whole content of the file, from its first byte. Returns less if the file is truncated meanwhile. Moves the
/// file's offset to the end. `what` names the attempt in the error, which comes from errno. Any thread may call this
/// function and write_whole(), and both block the thread.
Result<std::vector<std::byte>> read_whole(const Fd& file, const std::string& what);
/// Writes all bytes at the file's offset (at its end if it was opened with O_APPEND). A write that fails may have
/// written some of the bytes. `what` names the attempt in the error, and `remedy` says how to fix it.
Result<void> write_whole(const Fd& file, std::span<const std::byte> bytes, const std::string& what,
                         const std::string& remedy);

}  // namespace pharos
