#include "log_check.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace pharos::storage {
namespace {

constexpr std::size_t kBlockBytes = 32 << 10;
constexpr std::size_t kHeaderBytes = 7;
constexpr std::size_t kKindAt = 6;  // the checksum covers the record from here on
constexpr int kLastKind = 4;

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}
constexpr auto kCrc32cTable = crc32c_table();

/// CRC-32C that is computed byte by byte, so that one pass gives the checksum of every length.
class Crc32c {
 public:
  void add(char byte) { state_ = (state_ >> 8) ^ kCrc32cTable[(state_ ^ static_cast<unsigned char>(byte)) & 0xff]; }
  /// The checksum in its stored form. LevelDB masks it, because a CRC over a string that contains CRCs is weak.
  std::uint32_t masked() const {
    const std::uint32_t crc = ~state_;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  }

 private:
  std::uint32_t state_ = ~0u;
};

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

/// The record at the front of `bytes`, which have at least the size of a header.
class Record {
 public:
  explicit Record(std::string_view bytes) : bytes_{bytes} {}

  std::size_t size() const { return kHeaderBytes + (byte_at(bytes_, 4) | byte_at(bytes_, 5) << 8); }
  bool is_complete() const { return size() <= bytes_.size(); }
  bool is_zero() const { return bytes_.substr(0, kHeaderBytes).find_first_not_of('\0') == std::string_view::npos; }
  bool is_intact() const {
    const std::uint32_t kind = byte_at(bytes_, kKindAt);
    return kind >= 1 && kind <= kLastKind && is_complete() && has_checksum_at(size());
  }
  /// Returns whether the checksum is right for any length.
  bool has_changed_length() const { return has_checksum_at(std::string_view::npos); }

 private:
  /// Returns whether the stored checksum is right for the bytes up to `end`; with npos, for the bytes up to any
  /// position.
  bool has_checksum_at(std::size_t end) const {
    const std::uint32_t stored =
        byte_at(bytes_, 0) | byte_at(bytes_, 1) << 8 | byte_at(bytes_, 2) << 16 | byte_at(bytes_, 3) << 24;
    Crc32c crc;
    const std::size_t last = std::min(end, bytes_.size());
    for (std::size_t at = kKindAt; at < last; ++at) {
      crc.add(bytes_[at]);
      if (end == std::string_view::npos && crc.masked() == stored) return true;
    }
    return crc.masked() == stored;
  }

  std::string_view bytes_;
};

/// Checks the conditions 1 to 3 in log_check.hpp for a tail that does not begin with an intact record. `room` is the
/// number of bytes up to the end of its block.
bool is_torn(std::string_view tail, std::size_t room) {
  const Record first{tail};
  if (!first.is_zero() && (first.size() > room || first.has_changed_length())) return false;
  for (std::size_t at = 1; at + kHeaderBytes <= tail.size(); ++at) {
    if (Record{tail.substr(at)}.is_intact()) return false;
  }
  return true;
}

Error corrupt(const std::filesystem::path& file, std::size_t at) {
  return {ErrorCode::kCorrupt, file.string() + " is damaged at byte " + std::to_string(at),
          "Look at the disk, and restore the folder from a copy; or move it away to start with an empty store."};
}

}  // namespace

Result<void> check_log(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in) return Error::from_errno("reading " + file.string(), errno);
  const std::string log{std::istreambuf_iterator<char>{in}, {}};
  if (in.bad()) return Error::from_errno("reading " + file.string(), errno);

  for (std::size_t block_at = 0; block_at < log.size(); block_at += kBlockBytes) {
    const auto block = std::string_view{log}.substr(block_at, kBlockBytes);
    const bool is_last = block_at + kBlockBytes >= log.size();
    std::size_t at = 0;
    while (at + kHeaderBytes <= block.size()) {
      const auto rest = block.substr(at);
      const Record record{rest};
      if (!record.is_intact()) {
        const bool may_be_torn = is_last && (record.is_zero() || !record.is_complete());
        if (may_be_torn && is_torn(rest, kBlockBytes - at)) return {};
        return corrupt(file, block_at + at);
      }
      at += record.size();
    }
    // The rest is too small for a header: a header that a crash cut off, or the padding at the end of a block.
    const bool padding = block.find_first_not_of('\0', at) == std::string_view::npos;
    if (!is_last && !padding) return corrupt(file, block_at + at);
  }
  return {};
}

}  // namespace pharos::storage
