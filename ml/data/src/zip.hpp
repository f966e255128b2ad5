#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <pharos/wire/bytes.hpp>

namespace pharos::ml {

/// A file in an archive, whose memory it shares.
struct ZipEntry {
  Bytes bytes{};
  std::uint32_t checksum = 0;  ///< CRC-32; 0 if PyTorch was told to write none
};
/// Returns the files of a zip archive by name. Throws an Exception with kCorrupt for a damaged archive and with
/// kUnsupported for compressed files. Does not look at the checksums: see check_entry().
std::map<std::string, ZipEntry> files_in_zip(const std::filesystem::path& path, const Bytes& archive);
/// Reads all bytes of the entry. Throws an Exception with kCorrupt if they do not match the checksum; a checksum of 0
/// matches everything.
void check_entry(const std::filesystem::path& path, const std::string& name, const ZipEntry& entry);

}  // namespace pharos::ml
