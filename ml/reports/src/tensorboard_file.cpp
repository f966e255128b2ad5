#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <span>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>
#include <pharos/ml/crc32c.hpp>
#include <pharos/ml/tensorboard_file.hpp>

namespace pharos::ml {
namespace {

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
  append_record(to_write_, ProtoMessage{}.real(1, time).number(2, step).message(5, summary));
}

Result<void> TensorBoardFile::write() {
  if (to_write_.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  const Fd file{::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (!file) return Error::from_errno("making " + path_.string(), errno);
  PHAROS_TRY_VOID(
      write_whole(file, std::as_bytes(std::span{to_write_}), "writing " + path_.string(), "Make room in its folder."));
  to_write_.clear();
  return {};
}

}  // namespace pharos::ml
