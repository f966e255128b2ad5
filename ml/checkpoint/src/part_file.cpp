#include "part_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <nlohmann/json.hpp>

#include <pharos/base/failpoint.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>
#include <pharos/object_store/checksum.hpp>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kAlignment = 64;

/// As safetensors calls them.
const char* name_of(DType dtype) {
  constexpr const char* kNames[] = {"U8", "I8", "I32", "I64", "F16", "BF16", "F32", "F64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// Whole tensors have their own name and shape, so that others can read them.
std::pair<std::string, std::vector<std::int64_t>> key_of(const PartEntry& entry) {
  std::uint64_t all = 1;
  for (const std::int64_t each : entry.shape) all *= static_cast<std::uint64_t>(each);
  if (entry.begin == 0 && entry.count == all) return {entry.name, entry.shape};
  return {entry.name + '[' + std::to_string(entry.begin) + ':' + std::to_string(entry.begin + entry.count) + ']',
          {static_cast<std::int64_t>(entry.count)}};
}

std::string head_of(const Part& part, const std::string& id, const Moment& moment) {
  Json head = Json::object();
  head["__metadata__"] = {{"checkpoint", id}, {"step", std::to_string(moment.step)}};
  for (const PartEntry& each : part.entries) {
    auto [name, shape] = key_of(each);
    head[name] = {{"dtype", name_of(each.dtype)},
                  {"shape", std::move(shape)},
                  {"data_offsets", {each.place, each.place + each.bytes()}}};
  }
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((kAlignment - (text.size() + sizeof(std::uint64_t)) % kAlignment) % kAlignment, ' ');
  return text;
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

Result<void> write_part(const fs::path& folder, Part& part, std::span<const std::byte> bytes, const std::string& id,
                        const Moment& moment) {
  std::uint64_t place = 0;
  for (PartEntry& each : part.entries) {
    each.place = place;
    each.checksums = checksums_of(bytes.subspan(place, each.bytes()));
    place += each.bytes();
  }
  const std::string head = head_of(part, id, moment);
  const std::uint64_t length = head.size();
  for (PartEntry& each : part.entries) each.place += sizeof length + length;
  part.bytes = sizeof length + length + bytes.size();

  const std::string what = "writing " + (folder / part.file).string();
  const Fd file{::open((folder / part.file).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!file) return disk_error(what, errno);
  PHAROS_TRY_VOID(write_all(file, std::as_bytes(std::span{&length, 1}), what));
  PHAROS_TRY_VOID(write_all(file, std::as_bytes(std::span{head}), what));
  if (failpoint(Failpoint::kSaveBegun)) return disk_error(what, ENOSPC);
  PHAROS_TRY_VOID(write_all(file, bytes, what));
  failpoint(Failpoint::kSaveWritten);
  if (::fdatasync(file.get()) != 0) return disk_error(what, errno);
  return {};
}

Result<void> write_text(const fs::path& path, const std::string& text) {
  const std::string what = "writing " + path.string();
  const fs::path begun = path.string() + ".begun";
  const Fd file{::open(begun.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (!file) return disk_error(what, errno);
  PHAROS_TRY_VOID(write_all(file, std::as_bytes(std::span{text}), what));
  if (::fdatasync(file.get()) != 0) return disk_error(what, errno);
  if (::rename(begun.c_str(), path.c_str()) != 0) return disk_error(what, errno);
  return sync_folder(path.parent_path());
}

Result<std::string> read_text(const fs::path& path) {
  const std::string what = "reading " + path.string();
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return disk_error(what, errno);
  const auto bytes = read_whole(file, what);
  if (!bytes) return of_disk(bytes.error());
  return std::string{reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

Result<void> sync_folder(const fs::path& folder) {
  const Fd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened || ::fsync(opened.get()) != 0) return disk_error("syncing " + folder.string(), errno);
  return {};
}

}  // namespace pharos::ml
