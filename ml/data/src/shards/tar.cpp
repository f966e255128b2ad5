#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/shards.hpp>

#include "file_bytes.hpp"

// POSIX.1-1988 (ustar): each file has a head of 512 bytes, and its bytes are padded to 512. Two heads of zeros end the
// archive. GNU's and POSIX' extensions put longer names and larger sizes into files of their own before the head.

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;

/// A field of a head: where it is, and how long.
struct HeadField {
  std::size_t at;
  std::size_t size;
};
constexpr HeadField kName{0, 100};
constexpr HeadField kSize{124, 12};
constexpr HeadField kChecksum{148, 8};
constexpr HeadField kType{156, 1};
constexpr HeadField kPrefix{345, 155};

struct TarFile {
  std::string name;
  std::span<const std::byte> bytes;
};

/// Reads one file of the archive after the other.
class TarArchive {
 public:
  TarArchive(const fs::path& path, std::span<const std::byte> bytes) : path_{path}, rest_{bytes}, size_{bytes.size()} {}

  /// nullopt at the end.
  std::optional<TarFile> next() {
    std::optional<std::string> name;
    for (;;) {
      if (rest_.empty()) return std::nullopt;
      if (rest_.size() < kBlock) refuse("it is cut off");
      const auto head = rest_.first(kBlock);
      if (std::ranges::all_of(head, [](std::byte each) { return each == std::byte{}; })) return std::nullopt;
      check_sum(head);
      const std::uint64_t bytes = number_in(head, kSize);
      rest_ = rest_.subspan(kBlock);
      if (bytes > rest_.size()) refuse("it is cut off");
      const auto content = rest_.first(bytes);
      rest_ = rest_.subspan(std::min<std::uint64_t>((bytes + kBlock - 1) / kBlock * kBlock, rest_.size()));
      switch (text_in(head, kType).empty() ? '0' : text_in(head, kType)[0]) {
        case '0': return TarFile{name ? *name : name_in(head), content};
        case 'L': name = until_zero(content); break;
        case 'x': name = path_of_extension(content); break;
        case '5':
        case 'g': name.reset(); break;  // a folder, or what is said about all files
        default: refuse("the file " + name_in(head) + " is a link or something else that is no file");
      }
    }
  }

 private:
  static std::string until_zero(std::span<const std::byte> bytes) {
    const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return std::string{text.substr(0, text.find('\0'))};
  }
  static std::string text_in(std::span<const std::byte> head, HeadField field) {
    return until_zero(head.subspan(field.at, field.size));
  }
  std::string name_in(std::span<const std::byte> head) const {
    const std::string prefix = is_ustar(head) ? text_in(head, kPrefix) : "";
    return prefix.empty() ? text_in(head, kName) : prefix + '/' + text_in(head, kName);
  }
  static bool is_ustar(std::span<const std::byte> head) {
    constexpr std::string_view kUstar{"ustar\0", 6};
    return std::memcmp(head.data() + 257, kUstar.data(), kUstar.size()) == 0;
  }
  std::uint64_t number_in(std::span<const std::byte> head, HeadField field) const {
    if ((head[field.at] & std::byte{0x80}) != std::byte{}) {  // GNU: a binary number
      std::uint64_t number = 0;
      for (const std::byte each : head.subspan(field.at, field.size).last(8)) {
        number = number << 8 | std::to_integer<std::uint64_t>(each);
      }
      return number;
    }
    const std::string text = text_in(head, field);
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number, 8);
    if (error != std::errc{}) refuse("a head has no number where one should be");
    return number;
  }
  void check_sum(std::span<const std::byte> head) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      const bool is_own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
      sum += is_own ? ' ' : std::to_integer<std::uint64_t>(head[i]);
    }
    if (sum != number_in(head, kChecksum)) refuse("a head does not match its checksum");
  }
  /// Records are "length key=value\n". Only the path matters; sizes that a head has no room for are refused by the
  /// head.
  static std::optional<std::string> path_of_extension(std::span<const std::byte> content) {
    std::string_view text{reinterpret_cast<const char*>(content.data()), content.size()};
    constexpr std::string_view kKey = " path=";
    const std::size_t at = text.find(kKey);
    if (at == std::string_view::npos) return std::nullopt;
    text.remove_prefix(at + kKey.size());
    return std::string{text.substr(0, text.find('\n'))};
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw_corrupt(path_, why + " at byte " + std::to_string(size_ - rest_.size()));
  }

  const fs::path& path_;
  std::span<const std::byte> rest_;
  std::size_t size_;
};

/// The name of a sample and of a field: "a/00017.left.jpg" are "a/00017" and "left.jpg".
std::pair<std::string, std::string> split(const std::string& name) {
  const std::size_t folder = name.rfind('/') + 1;  // 0 without a folder
  const std::size_t point = name.find('.', folder);
  if (point == std::string::npos) return {name, ""};
  return {name.substr(0, point), name.substr(point + 1)};
}

class TarSamples final : public Dataset {
 public:
  explicit TarSamples(const fs::path& path) : bytes_{map_file(path)} {
    TarArchive archive{path, bytes_.span()};
    std::string sample;
    std::vector<std::pair<std::string, std::span<const std::byte>>> files;  // of the sample
    while (auto file = archive.next()) {
      auto [its, field] = split(file->name);
      if (its != sample) add(path, sample, files);
      sample = std::move(its);
      files.emplace_back(std::move(field), file->bytes);
    }
    add(path, sample, files);
    if (files_.empty()) throw_corrupt(path, "there is no sample");
  }
  std::uint64_t size() const override { return files_.size() / fields_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t length(std::uint64_t sample, std::size_t field) const override {
    return static_cast<std::int64_t>(file(sample, field).size());
  }
  void read(std::uint64_t sample, std::uint64_t, std::span<const std::span<std::byte>> to) const override {
    for (std::size_t i = 0; i < to.size(); ++i) std::ranges::copy(file(sample, i), to[i].begin());
  }

 private:
  std::span<const std::byte> file(std::uint64_t sample, std::size_t field) const {
    return files_[sample * fields_.size() + field];
  }
  /// Takes the files of a sample, and leaves none.
  void add(const fs::path& path, const std::string& sample,
           std::vector<std::pair<std::string, std::span<const std::byte>>>& files) {
    if (files.empty()) return;
    std::ranges::sort(files, {}, [](const auto& each) { return each.first; });
    const auto twice = std::ranges::adjacent_find(files, {}, [](const auto& each) { return each.first; });
    if (twice != files.end()) throw_corrupt(path, "the sample " + sample + " has two files " + twice->first);
    if (fields_.empty()) {
      for (const auto& [name, bytes] : files) fields_.push_back({name, DType::kU8, {kVaries}});
    }
    const auto is_same = [](const auto& file, const Field& field) { return file.first == field.name; };
    if (!std::ranges::equal(files, fields_, is_same)) {
      std::string names;
      for (const Field& each : fields_) names += (names.empty() ? "" : ", ") + each.name;
      throw_corrupt(path, "the sample " + sample + " has not the files of the first one: " + names);
    }
    for (const auto& [name, bytes] : files) files_.push_back(bytes);
    files.clear();
  }

  const Bytes bytes_;
  std::vector<Field> fields_;
  std::vector<std::span<const std::byte>> files_;  // of the first sample, of the second one, …
};

}  // namespace

DatasetPtr samples_in_tar(const fs::path& path) {
  return std::make_shared<const TarSamples>(path);
}

}  // namespace pharos::ml
