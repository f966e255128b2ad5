#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <pharos/wire/bytes.hpp>

namespace pharos::ml {

/// What a zip archive holds, by name. Throws kCorrupt, and kUnsupported for what is compressed in it.
std::map<std::string, Bytes> files_in_zip(const std::filesystem::path& path, const Bytes& archive);

}  // namespace pharos::ml
