#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

namespace pharos {

/// All that the file has. `what` was attempted, for the error.
Result<std::vector<std::byte>> read_whole(const Fd& file, const std::string& what);
/// Behind what the file has, or where it stands; all of them, unless it fails.
Result<void> write_whole(const Fd& file, std::span<const std::byte> bytes, const std::string& what,
                         const std::string& remedy);

}  // namespace pharos
