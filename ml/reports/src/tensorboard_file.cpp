#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <span>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>
#include <pharos/ml/crc32c.hpp>
#include <pharos/ml/tensorboard_file.hpp>

namespace pharos::ml {
namespace {

constexpr std::size_t kRecordBytesMax = std::size_t{64} << 20;  // bytes of records that wait to be written
constexpr std::size_t kHead = sizeof(std::uint64_t) + sizeof(std::uint32_t);  // a record's length and its checksum
constexpr const char* kMakeRoom = "Free some space on the disk of this file.";

std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span{bytes}));
  return std::rotr(crc, 15) + 0xa282ead8;
}

void append_record(std::string& to, const ProtoMessage& event) {
  const std::uint64_t size = event.bytes().size();
  char length[sizeof size];
  std::memcpy(length, &size, sizeof size);
  const auto append_checksum = [&](std::string_view of) {
    const std::uint32_t checksum = masked_checksum(of);
    char raw[sizeof checksum];
    std::memcpy(raw, &checksum, sizeof checksum);
    to.append(raw, sizeof raw);
  };
  to.append(length, sizeof length);
  append_checksum({length, sizeof length});
  to += event.bytes();
  append_checksum(event.bytes());
}

/// Returns the offset at which the last whole record ends.
off_t end_of_records(const Fd& file, off_t size) {
  off_t end = 0;
  for (char head[kHead]; end + static_cast<off_t>(kHead) <= size;) {
    if (::pread(file.get(), head, kHead, end) != static_cast<ssize_t>(kHead)) break;
    std::uint64_t length = 0;
    std::uint32_t checksum = 0;
    std::memcpy(&length, head, sizeof length);
    std::memcpy(&checksum, head + sizeof length, sizeof checksum);
    const auto left = static_cast<std::uint64_t>(size - end) - kHead;
    if (checksum != masked_checksum({head, sizeof length}) || left < sizeof checksum) break;
    if (length > left - sizeof checksum) break;
    end += static_cast<off_t>(kHead + length + sizeof checksum);
  }
  return end;
}

}  // namespace

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder, double began)
    : path_{folder / "events.out.tfevents.pharos"} {
  append_record(to_write_, ProtoMessage{}.real(1, began).text(3, "brain.Event:2"));
}

void TensorBoardFile::add(double time, std::uint64_t step, const Metrics& metrics, std::string_view unnamed) {
  if (metrics.empty()) return;
  ProtoMessage summary;
  for (const auto& [name, value] : metrics.entries()) {
    summary.message(1, ProtoMessage{}.text(1, name.empty() ? unnamed : name).real(2, static_cast<float>(value)));
  }
  add(time, step, summary);
}

void TensorBoardFile::add(double time, std::uint64_t step, const ProtoMessage& summary) {
  append(ProtoMessage{}.real(1, time).number(2, step).message(5, summary));
}

// The event is a session's start, at which TensorBoard drops what it has read of this step and later ones.
void TensorBoardFile::go_back(double time, std::uint64_t step) {
  append(ProtoMessage{}.real(1, time).number(2, step).message(7, ProtoMessage{}.number(1, 1)));
}

void TensorBoardFile::append(const ProtoMessage& event) {
  if (to_write_.size() < kRecordBytesMax) append_record(to_write_, event);
}

Result<void> TensorBoardFile::write() {
  if (to_write_.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  const Fd file{::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (!file) return Error::from_errno("making " + path_.string(), errno, kMakeRoom);
  const std::string what = "writing " + path_.string();
  struct stat had {};
  if (::fstat(file.get(), &had) != 0) return Error::from_errno(what, errno);
  off_t end = had.st_size;
  if (!is_whole_) {
    end = end_of_records(file, had.st_size);
    if (end != had.st_size && ::ftruncate(file.get(), end) != 0) return Error::from_errno(what, errno);
    is_whole_ = true;
  }
  auto written = write_whole(file, std::as_bytes(std::span{to_write_}), what, kMakeRoom);
  if (!written) {
    is_whole_ = ::ftruncate(file.get(), end) == 0;
    return written;
  }
  to_write_.clear();
  return {};
}

}  // namespace pharos::ml
