#include "store/program_transfer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/object_bytes.hpp>
#include <pharos/base/random.hpp>
#include <pharos/node/failpoints.hpp>
#include <pharos/object_store/checksum.hpp>
#include <pharos/process/build_id.hpp>

#include "store/program_files.hpp"
#include "store/received_files.hpp"

namespace pharos::node {
namespace {

constexpr std::size_t kPartBytes = std::size_t{256} << 10;
constexpr ByteCount kProgramMax = 4_GiB;
constexpr std::uint64_t kNoFile = ~std::uint64_t{0};  // in place of a size

}  // namespace

// ---- Sending

namespace {

/// Opens one of the program's files. Empty if there is none of this content.
Fd open_to_send(const wire::BuildId& content, const Fd& executable, const wire::RegisterJob& program,
                const std::string& folder) {
  if (!executable) return {};
  if (content == program.build_id) return Fd{::fcntl(executable.get(), F_DUPFD_CLOEXEC, 0)};
  for (const auto& file : program.files) {
    if (file.content != content) continue;
    Fd opened = open_if_it_is(own_path_of(program, file), file);
    return opened ? std::move(opened) : open_if_it_is(path_of_received(folder, content), file);
  }
  return {};
}

/// Returns false if the stream broke or the file cannot be read.
bool send_file(object_store::Stream& to, const Fd& file, std::uint64_t sent, std::span<std::byte> room) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return false;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (sent > size || !to.send(bytes_of(size))) return false;
  while (sent < size) {
    const auto part = room.first(std::min<std::size_t>(room.size(), size - sent));
    const ssize_t read = ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(sent));
    if (read != static_cast<ssize_t>(part.size())) return false;
    const std::uint64_t checksum = object_store::checksum_of(part);
    const std::uint64_t said = failpoint(failpoints::kProgramSent) ? ~checksum : checksum;
    if (!to.send(bytes_of(said), part)) return false;
    sent += part.size();
  }
  return true;
}

}  // namespace

void send_program(object_store::Stream& to, const Fd& executable, const wire::RegisterJob& program,
                  const std::string& folder) {
  std::vector<std::byte> room(kPartBytes);
  wire::BuildId content{};
  std::uint64_t sent = 0;
  while (to.receive(room_of(content)) && to.receive(room_of(sent))) {
    const Fd file = open_to_send(content, executable, program, folder);
    if (file ? !send_file(to, file, sent, room) : !to.send(bytes_of(kNoFile))) return;
  }
}

// ---- Receiving

ArrivingProgram::ArrivingProgram(const wire::RegisterJob& program, std::span<const wire::BuildId> missing) {
  for (const auto& content : missing) {
    if (content == program.build_id) {
      wanted_.push_back({content, program.executable, {}});
      continue;
    }
    const auto file = std::find_if(program.files.begin(), program.files.end(),
                                   [&](const wire::ProgramFile& each) { return each.content == content; });
    if (file != program.files.end()) wanted_.push_back({content, file->path, file->size});
  }
}

ArrivingProgram::~ArrivingProgram() {
  drop();
}

void ArrivingProgram::drop() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
  file_.reset();
  arrived_ -= here_;
  here_ = 0;
}

Result<void> ArrivingProgram::receive(object_store::Stream& from, const std::string& folder) {
  for (; complete_ < wanted_.size(); ++complete_) {
    PHAROS_TRY_VOID(receive_one(from, folder, wanted_[complete_]));
  }
  return {};
}

Result<void> ArrivingProgram::receive_one(object_store::Stream& from, const std::string& folder, const Wanted& wanted) {
  const std::uint64_t has = here_;
  PHAROS_TRY_VOID(from.send(bytes_of(wanted.content), bytes_of(has)));
  std::uint64_t size = 0;
  PHAROS_TRY_VOID(from.receive(room_of(size)));
  if (size == kNoFile) {
    return Error{ErrorCode::kNotFound, wanted.path + (wanted.size ? " is not there any more, or was changed since"
                                                                  : " has ended, or is not there any more")};
  }
  if (!file_) PHAROS_TRY_VOID(begin(folder, wanted, size));
  if (size != size_ || (wanted.size && size != *wanted.size)) {
    return Error{ErrorCode::kCorrupt, "another node sent " + wanted.path + " with another size"};
  }
  PHAROS_TRY_VOID(receive_rest(from));
  return finish(folder, wanted);
}

std::uint64_t ArrivingProgram::bytes_to_come(std::uint64_t first) const {
  std::uint64_t all = first;
  for (std::size_t i = complete_ + 1; i < wanted_.size(); ++i) all += wanted_[i].size.value_or(0);
  return all;
}

Result<void> ArrivingProgram::begin(const std::string& folder, const Wanted& wanted, std::uint64_t size) {
  const ByteCount to_come{bytes_to_come(size)};
  if (to_come > kProgramMax) {
    return Error{ErrorCode::kUnsupported,
                 "the program has " + to_string(to_come) + ", and at most " + to_string(kProgramMax) + " are sent",
                 "Put it at the same path on every node."};
  }
  PHAROS_TRY_VOID(make_folder(folder));
  // Room for all that is to come is made before the first file, so none of the program's files is removed for another.
  PHAROS_TRY_VOID(make_room(folder, to_come));
  path_ = path_of_received(folder, wanted.content) + "-" + to_hex(random_u64()) + ".part";
  file_ = Fd{::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700)};
  if (!file_) return Error::from_errno("making " + path_, errno);
  // The room is taken before the bytes come, because others may use up the disk meanwhile.
  if (size != 0 && ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) != 0 && errno == ENOSPC) {
    drop();
    return Error::from_errno("making room for " + to_string(ByteCount{size}) + " in " + folder, ENOSPC);
  }
  size_ = size;
  return {};
}

Result<void> ArrivingProgram::receive_rest(object_store::Stream& from) {
  std::vector<std::byte> room(kPartBytes);
  while (here_ < size_) {
    std::uint64_t checksum = 0;
    const auto part = std::span{room}.first(std::min<std::size_t>(kPartBytes, size_ - here_));
    PHAROS_TRY_VOID(from.receive(room_of(checksum)));
    PHAROS_TRY_VOID(from.receive(part));
    if (object_store::checksum_of(part) != checksum) {
      return Error{ErrorCode::kCorrupt, "a part of the program was damaged on its way"};
    }
    const ssize_t written = ::pwrite(file_.get(), part.data(), part.size(), static_cast<off_t>(here_));
    if (written != static_cast<ssize_t>(part.size())) {
      return Error::from_errno("writing " + path_, written < 0 ? errno : ENOSPC);
    }
    here_ += part.size();
    arrived_ += part.size();
  }
  return {};
}

// A file that is open for writing cannot be run, so it is closed before it gets its name.
Result<void> ArrivingProgram::finish(const std::string& folder, const Wanted& wanted) {
  const auto content = process::build_id_of(file_.get());
  if (!content || *content != wanted.content) {
    drop();
    return Error{ErrorCode::kCorrupt, "another node sent another build of " + wanted.path};
  }
  file_.reset();
  here_ = 0;
  if (::rename(path_.c_str(), path_of_received(folder, wanted.content).c_str()) != 0) {
    return Error::from_errno("naming " + path_, errno);
  }
  path_.clear();
  return {};
}

}  // namespace pharos::node
