#include "zip.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "file_bytes.hpp"

// An archive ends with a directory and a record that says where the directory begins. Large archives have a second such
// record with wider numbers. See PKWARE's APPNOTE, sections 4.3.7 to 4.3.16.

namespace pharos::ml {
namespace {

constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kCommentMax = 65535;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kWideEndBytes = 56;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::uint32_t kNarrow = 0xffffffff;  // means that the number is in another place, and wider

class ZipReader {
 public:
  ZipReader(const std::filesystem::path& path, const Bytes& archive) : path_{path}, archive_{archive} {}

  std::map<std::string, ZipEntry> read() {
    const std::uint64_t end = find_end();
    std::uint64_t entries = number<std::uint16_t>(end + 10);
    std::uint64_t place = number<std::uint32_t>(end + 16);
    if ((place == kNarrow || entries == 0xffff) && end >= kLocatorBytes &&
        number<std::uint32_t>(end - kLocatorBytes) == 0x07064b50) {
      const auto wide = number<std::uint64_t>(end - kLocatorBytes + 8);
      if (number<std::uint32_t>(wide) != 0x06064b50) fail();
      part(wide, kWideEndBytes);
      entries = number<std::uint64_t>(wide + 32);
      place = number<std::uint64_t>(wide + 48);
    }
    std::map<std::string, ZipEntry> files;
    for (; entries > 0; --entries) {
      if (number<std::uint32_t>(place) != 0x02014b50) fail();
      const std::size_t name_bytes = number<std::uint16_t>(place + 28);
      const std::size_t extra_bytes = number<std::uint16_t>(place + 30);
      const auto name = part(place + kEntryBytes, name_bytes);
      std::string text{reinterpret_cast<const char*>(name.data()), name.size()};
      if (number<std::uint16_t>(place + 10) != 0) throw_unsupported(path_, text + " is compressed in it");
      ZipEntry entry{file_of(place, place + kEntryBytes + name_bytes, extra_bytes), number<std::uint32_t>(place + 16)};
      if (!files.emplace(std::move(text), std::move(entry)).second) fail();
      place += kEntryBytes + name_bytes + extra_bytes + number<std::uint16_t>(place + 32);
    }
    return files;
  }

 private:
  [[noreturn]] void fail() const { throw_corrupt(path_, "it is damaged: its directory makes no sense"); }
  std::span<const std::byte> part(std::uint64_t begin, std::uint64_t bytes) const {
    if (begin > archive_.size() || bytes > archive_.size() - begin) fail();
    return archive_.span().subspan(begin, bytes);
  }
  template <class Number>
  Number number(std::uint64_t place) const {
    Number value{};
    std::memcpy(&value, part(place, sizeof value).data(), sizeof value);
    return value;
  }
  std::uint64_t find_end() const {
    if (archive_.size() < kEndBytes) fail();
    const std::uint64_t last = archive_.size() - kEndBytes;
    for (std::uint64_t place = last + 1; place-- > last - std::min<std::uint64_t>(last, kCommentMax);) {
      if (number<std::uint32_t>(place) == 0x06054b50) return place;
    }
    fail();
  }
  Bytes file_of(std::uint64_t entry, std::uint64_t extra, std::size_t extra_bytes) const {
    std::uint64_t bytes = number<std::uint32_t>(entry + 24);
    std::uint64_t local = number<std::uint32_t>(entry + 42);
    const std::uint64_t end = extra + extra_bytes;
    while (extra + 4 <= end) {
      std::uint64_t field = extra + 4;
      const std::uint64_t next = field + number<std::uint16_t>(extra + 2);
      if (number<std::uint16_t>(extra) == 1) {  // the whole size, then the size in the archive, then the place
        if (bytes == kNarrow) bytes = number<std::uint64_t>(field), field += 8;
        if (number<std::uint32_t>(entry + 20) == kNarrow) field += 8;
        if (local == kNarrow) local = number<std::uint64_t>(field);
      }
      extra = next;
    }
    if (number<std::uint32_t>(local) != 0x04034b50) fail();
    const std::uint64_t begin =
        local + kLocalBytes + number<std::uint16_t>(local + 26) + number<std::uint16_t>(local + 28);
    return {archive_.owner(), part(begin, bytes)};
  }

  const std::filesystem::path& path_;
  const Bytes& archive_;
};

constexpr std::size_t kAtOnce = 8;
/// kRemainders[n][b] is the CRC-32 remainder of the byte b followed by n zero bytes.
constexpr auto kRemainders = [] {
  std::array<std::array<std::uint32_t, 256>, kAtOnce> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0xedb88320 : 0);
    tables[0][byte] = rest;
  }
  for (std::size_t zeros = 1; zeros < kAtOnce; ++zeros) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}();

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t rest = 0xffffffff;
  for (; bytes.size() >= kAtOnce; bytes = bytes.subspan(kAtOnce)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    word ^= rest;
    rest = 0;
    for (std::size_t i = 0; i < kAtOnce; ++i) rest ^= kRemainders[kAtOnce - 1 - i][(word >> (8 * i)) & 0xff];
  }
  for (const std::byte each : bytes) {
    rest = (rest >> 8) ^ kRemainders[0][(rest ^ static_cast<std::uint32_t>(each)) & 0xff];
  }
  return ~rest;
}

}  // namespace

std::map<std::string, ZipEntry> files_in_zip(const std::filesystem::path& path, const Bytes& archive) {
  return ZipReader{path, archive}.read();
}

void check_entry(const std::filesystem::path& path, const std::string& name, const ZipEntry& entry) {
  if (entry.checksum == 0 || crc32(entry.bytes.span()) == entry.checksum) return;
  throw_corrupt(path, "the bytes of " + name + " are damaged: their checksum does not match");
}

}  // namespace pharos::ml
