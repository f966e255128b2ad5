#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <pharos/wire/bytes.hpp>

namespace pharos::ml {

struct ZipEntry {
  Bytes bytes{};
  std::uint32_t checksum = 0;  ///< CRC-32; 0: PyTorch was told to write none
};
/// What a zip archive holds, by name. Throws kCorrupt, and kUnsupported for what is compressed in it.
std::map<std::string, ZipEntry> files_in_zip(const std::filesystem::path& path, const Bytes& archive);
/// Reads all of its bytes. Throws kCorrupt when they are not what was written.
void check_entry(const std::filesystem::path& path, const std::string& name, const ZipEntry& entry);

}  // namespace pharos::ml
