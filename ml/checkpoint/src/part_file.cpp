#include "part_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>
#include <pharos/ml/checkpoint/failpoints.hpp>
#include <pharos/object_store/checksum.hpp>

#include "json_text.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kHeadBytesMax = std::uint64_t{100} << 20;  // the limit of the format's own library
constexpr std::size_t kHeadDepth = 8;

/// Returns the name of the type in safetensors.
const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"U8", "I8", "I32", "I64", "F16", "BF16", "F32", "F64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// Whole tensors keep their own name and shape, so that other programs can read them.
std::pair<std::string, std::vector<std::int64_t>> key_of(const PartEntry& entry) {
  std::uint64_t all = 1;
  for (const std::int64_t each : entry.shape) all *= static_cast<std::uint64_t>(each);
  if (entry.begin == 0 && entry.count == all) return {entry.name, entry.shape};
  return {entry.name + '[' + std::to_string(entry.begin) + ':' + std::to_string(entry.begin + entry.count) + ']',
          {static_cast<std::int64_t>(entry.count)}};
}

std::string head_of(const RankPart& part, const std::string& id, const Moment& moment) {
  JsonObjectText head;
  const auto metadata = JsonObjectText{}.add("checkpoint", id).add("step", std::to_string(moment.step)).text();
  head.add_text("__metadata__", metadata);
  for (const PartEntry& each : part.entries) {
    const auto [name, shape] = key_of(each);
    JsonObjectText tensor;
    tensor.add("dtype", std::string_view{name_of(each.dtype)}).add_text("shape", json_list(shape));
    tensor.add_text("data_offsets", json_list(std::array{each.place, each.place + each.bytes()}));
    head.add_text(name, tensor.text());
  }
  std::string text = head.text();
  text.append((kAlignment - (text.size() + sizeof(std::uint64_t)) % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

/// The checkpoint to which a part belongs, as the head of the part says.
struct Origin {
  std::string id;
  std::string step;
};
Result<Origin> origin_of(const fs::path& path) {
  PHAROS_TRY(const Fd file, open_to_read(path));
  std::uint64_t length = 0;
  PHAROS_TRY_VOID(read_at(file, path, 0, std::as_writable_bytes(std::span{&length, 1})));
  std::error_code error;
  const std::uint64_t all = fs::file_size(path, error);
  if (error || length > kHeadBytesMax || length > all - sizeof length) {
    return Error{ErrorCode::kCorrupt, "it has no head"};
  }
  std::string text(length, '\0');
  PHAROS_TRY_VOID(read_at(file, path, sizeof length, std::as_writable_bytes(std::span{text})));
  const auto head = parse_json(text, kHeadDepth);
  const JsonValue* const texts = head ? head->find("__metadata__") : nullptr;
  const auto said = [texts](const char* name) -> std::string {
    const JsonValue* const found = texts == nullptr ? nullptr : texts->find(name);
    const auto* const own = found == nullptr ? nullptr : found->as<std::string>();
    return own == nullptr ? "" : *own;
  };
  return Origin{said("checkpoint"), said("step")};
}

std::vector<std::uint64_t> checksums_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> checksums;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), object_store::kPieceBytes))) {
    checksums.push_back(object_store::checksum_of(bytes.first(std::min(bytes.size(), object_store::kPieceBytes))));
  }
  return checksums;
}

Error of_disk(const Error& error) {
  if (error.code() != ErrorCode::kUnavailable) return error;
  return {ErrorCode::kFailedPrecondition, error.message(), error.remedy()};
}
Result<void> write_all(const Fd& file, std::span<const std::byte> bytes, const std::string& what) {
  const auto written = write_whole(file, bytes, what, kDiskRemedy);
  return written ? Result<void>{} : of_disk(written.error());
}

}  // namespace

Error disk_error(const std::string& what, int error_number) {
  return of_disk(Error::from_errno(what, error_number, kDiskRemedy));
}

Result<void> write_part(const fs::path& folder, RankPart& part, std::span<const std::byte> bytes, const std::string& id,
                        const Moment& moment) {
  std::uint64_t place = 0;
  for (PartEntry& each : part.entries) {
    each.place = place;
    each.checksums = checksums_of(bytes.subspan(place, each.bytes()));
    place += each.bytes();
  }
  const std::string head = head_of(part, id, moment);
  for (PartEntry& each : part.entries) each.place += head.size();
  part.bytes = head.size() + bytes.size();
  part.head_checksum = object_store::checksum_of(std::as_bytes(std::span{head}));

  const std::string what = "writing " + (folder / part.file).string();
  const Fd file{::open((folder / part.file).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!file) return disk_error(what, errno);
  PHAROS_TRY_VOID(write_all(file, std::as_bytes(std::span{head}), what));
  if (failpoint(failpoints::kSaveBegun)) return disk_error(what, ENOSPC);
  PHAROS_TRY_VOID(write_all(file, bytes, what));
  failpoint(failpoints::kSaveWritten);
  if (::fdatasync(file.get()) != 0) return disk_error(what, errno);
  return {};
}

Result<void> check_head(const Fd& file, const fs::path& path, const RankPart& part, const Manifest& manifest) {
  if (!part.head_checksum) return {};
  std::vector<std::byte> head(part.head_bytes());
  PHAROS_TRY_VOID(read_at(file, path, 0, head));
  if (object_store::checksum_of(head) == *part.head_checksum) return {};
  return Error{ErrorCode::kCorrupt,
               path.string() + ": the bytes of its head are not what was written" + strangeness(path, manifest)};
}

std::string strangeness(const fs::path& path, const Manifest& manifest) {
  const auto origin = origin_of(path);
  if (!origin) return ": " + origin.error().message();
  if (origin->id == manifest.id) return {};
  return ": it is of another checkpoint, of step " + (origin->step.empty() ? "?" : origin->step);
}

Result<void> write_text(const fs::path& path, const std::string& text) {
  const std::string what = "writing " + path.string();
  const fs::path begun = path.string() + ".begun";
  const fs::path folder = path.parent_path();
  // The folder is opened first, because other processes may rename it as soon as the file exists.
  const Fd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened) return disk_error(what, errno);
  const auto write = [&]() -> Result<void> {
    const Fd file{::open(begun.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (!file) return disk_error(what, errno);
    PHAROS_TRY_VOID(write_all(file, std::as_bytes(std::span{text}), what));
    if (::fdatasync(file.get()) != 0 || ::rename(begun.c_str(), path.c_str()) != 0) return disk_error(what, errno);
    return {};
  };
  auto written = write();
  if (!written) {
    ::unlink(begun.c_str());
    return written;
  }
  if (::fsync(opened.get()) != 0) return disk_error("syncing " + folder.string(), errno);
  return {};
}

Result<std::string> read_text(const fs::path& path) {
  PHAROS_TRY(const Fd file, open_to_read(path));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return disk_error("reading " + path.string(), errno);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  PHAROS_TRY_VOID(read_at(file, path, 0, std::as_writable_bytes(std::span{text})));
  return text;
}

Result<Fd> open_to_read(const fs::path& path) {
  Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return disk_error("reading " + path.string(), errno);
  return file;
}

Result<void> read_at(const Fd& file, const fs::path& path, std::uint64_t place, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(place));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return Error{ErrorCode::kCorrupt, path.string() + " ends at " + std::to_string(place)};
    if (got < 0) {
      Error error = disk_error("reading " + path.string(), errno);
      if (errno != EIO) return error;
      return Error{ErrorCode::kCorrupt, error.message()};
    }
    place += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<void> sync_folder(const fs::path& folder) {
  const Fd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened || ::fsync(opened.get()) != 0) return disk_error("syncing " + folder.string(), errno);
  return {};
}

}  // namespace pharos::ml
