#include "store/program_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/object_bytes.hpp>
#include <pharos/base/random.hpp>
#include <pharos/node/failpoints.hpp>
#include <pharos/object_store/checksum.hpp>
#include <pharos/process/build_id.hpp>

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPartBytes = std::size_t{256} << 10;
constexpr ByteCount kProgramMax = 4_GiB;
constexpr ByteCount kLeftFree = 64_MiB;  // stays free on the disk
constexpr std::size_t kUnusedMax = 4;    // unused executables that are kept for later jobs

std::string path_of(const std::string& folder, const wire::BuildId& build) {
  std::string path = folder + "/";
  for (const std::uint8_t byte : build) path += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return path;
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error::from_errno("making the folder " + path, errno);
}

// A file that is no executable, or cannot be read, is treated like another build.
Fd open_at_its_path(const wire::RegisterJob& program) {
  Fd file{::open(program.executable.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (::access(program.executable.c_str(), X_OK) != 0) return {};
  const auto build = process::build_id_of(file.get());
  return build && *build == program.build_id ? std::move(file) : Fd{};
}

Fd open_received(const std::string& folder, const wire::RegisterJob& program) {
  Fd file{::open(path_of(folder, program.build_id).c_str(), O_RDONLY | O_CLOEXEC)};
  if (file) {
    ::flock(file.get(), LOCK_SH);
    ::futimens(file.get(), nullptr);  // unused_in() sorts by the time of the last use
  }
  return file;
}

Result<std::string> folder_for(const std::string& folder, const wire::RegisterJob& program) {
  std::error_code none;
  const bool is_there = fs::is_directory(program.folder, none) && ::access(program.folder.c_str(), X_OK) == 0;
  if (is_there || program.folder.empty()) return program.folder;
  std::string instead = folder + "/work";
  PHAROS_TRY_VOID(make_folder(folder));
  PHAROS_TRY_VOID(make_folder(instead));
  return instead;
}

/// Executables that no job has open. The one that was used last comes first.
std::vector<fs::path> unused_in(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> unused;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    if (!entry.is_regular_file(error) || entry.path().has_extension()) continue;
    const Fd file{::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
    unused.emplace_back(entry.last_write_time(error), entry.path());
  }
  std::sort(unused.begin(), unused.end(), std::greater{});
  std::vector<fs::path> paths;
  for (auto& [time, path] : unused) paths.push_back(std::move(path));
  return paths;
}

Result<void> make_room(const std::string& folder, ByteCount size) {
  auto unused = unused_in(folder);
  for (;;) {
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) return Error::from_errno("looking at the disk of " + folder, errno);
    const std::string remedy =
        "Set PHAROS_FOLDER for that node to a folder on another disk, or put the program at the same path there.";
    if ((disk.f_flag & ST_NOEXEC) != 0) {
      return Error{ErrorCode::kPermissionDenied, "no program may be run from " + folder, remedy};
    }
    const ByteCount left{std::uint64_t{disk.f_bavail} * disk.f_frsize};
    const bool fits = size + kLeftFree <= left;
    if (fits && unused.size() <= kUnusedMax) return {};
    if (unused.empty()) {
      return Error{ErrorCode::kExhausted,
                   "the program needs " + to_string(size) + ", but the disk of " + folder + " has " + to_string(left) +
                       " left, of which " + to_string(kLeftFree) + " must stay free",
                   remedy};
    }
    std::error_code error;
    fs::remove(unused.back(), error);
    unused.pop_back();
  }
}

}  // namespace

// ---- Opening

Result<ProgramHere> open_program(const std::string& folder, const wire::RegisterJob& program) {
  Fd executable = open_at_its_path(program);
  if (!executable) executable = open_received(folder, program);
  if (!executable) return Error{ErrorCode::kNotFound, program.executable + " is not here"};
  PHAROS_TRY(std::string place, folder_for(folder, program));
  return ProgramHere{std::move(executable), std::move(place)};
}

// ---- Sending

void send_program(object_store::Stream& to, const Fd& executable) {
  struct stat status {};
  if (executable && ::fstat(executable.get(), &status) != 0) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t sent = 0;
  if (!to.send(bytes_of(size)) || size == 0 || !to.receive(room_of(sent))) return;
  std::vector<std::byte> room(kPartBytes);
  while (sent < size) {
    const auto part = std::span{room}.first(std::min<std::size_t>(kPartBytes, size - sent));
    const ssize_t read = ::pread(executable.get(), part.data(), part.size(), static_cast<off_t>(sent));
    if (read != static_cast<ssize_t>(part.size())) return;  // the receiver sees the connection end, and asks again
    const std::uint64_t checksum = object_store::checksum_of(part);
    const std::uint64_t said = failpoint(failpoints::kProgramSent) ? ~checksum : checksum;
    if (!to.send(bytes_of(said), part)) return;
    sent += part.size();
  }
}

// ---- Receiving

ArrivingProgram::~ArrivingProgram() {
  drop();
}

void ArrivingProgram::drop() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
  file_.reset();
  arrived_ = 0;
}

Result<void> ArrivingProgram::receive(object_store::Stream& from, const std::string& folder) {
  std::uint64_t size = 0;
  PHAROS_TRY_VOID(from.receive(room_of(size)));
  if (size == 0) return Error{ErrorCode::kNotFound, "the program has ended"};
  if (!file_) PHAROS_TRY_VOID(begin(folder, size));
  if (size != size_) return Error{ErrorCode::kCorrupt, "another node sent a program of another size"};
  const std::uint64_t has = arrived_;
  PHAROS_TRY_VOID(from.send(bytes_of(has)));
  PHAROS_TRY_VOID(receive_rest(from));
  return finish(folder);
}

Result<void> ArrivingProgram::begin(const std::string& folder, std::uint64_t size) {
  if (ByteCount{size} > kProgramMax) {
    return Error{
        ErrorCode::kUnsupported,
        "the program has " + to_string(ByteCount{size}) + ", and at most " + to_string(kProgramMax) + " are sent",
        "Put it at the same path on every node."};
  }
  PHAROS_TRY_VOID(make_folder(folder));
  PHAROS_TRY_VOID(make_room(folder, ByteCount{size}));
  path_ = path_of(folder, build_) + "-" + to_hex(random_u64()) + ".part";
  file_ = Fd{::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700)};
  if (!file_) return Error::from_errno("making " + path_, errno);
  // The room is taken before the bytes come, because others may use up the disk meanwhile.
  if (::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) != 0 && errno == ENOSPC) {
    drop();
    return Error::from_errno("making room for " + to_string(ByteCount{size}) + " in " + folder, ENOSPC);
  }
  size_ = size;
  return {};
}

Result<void> ArrivingProgram::receive_rest(object_store::Stream& from) {
  std::vector<std::byte> room(kPartBytes);
  while (arrived_ < size_) {
    std::uint64_t checksum = 0;
    const auto part = std::span{room}.first(std::min<std::size_t>(kPartBytes, size_ - arrived_));
    PHAROS_TRY_VOID(from.receive(room_of(checksum)));
    PHAROS_TRY_VOID(from.receive(part));
    if (object_store::checksum_of(part) != checksum) {
      return Error{ErrorCode::kCorrupt, "a part of the program was damaged on its way"};
    }
    const ssize_t written = ::pwrite(file_.get(), part.data(), part.size(), static_cast<off_t>(arrived_.load()));
    if (written != static_cast<ssize_t>(part.size())) {
      return Error::from_errno("writing " + path_, written < 0 ? errno : ENOSPC);
    }
    arrived_ += part.size();
  }
  return {};
}

// A file that is open for writing cannot be run, so it is closed before it gets its name.
Result<void> ArrivingProgram::finish(const std::string& folder) {
  const auto build = process::build_id_of(file_.get());
  if (!build || *build != build_) {
    drop();
    return Error{ErrorCode::kCorrupt, "another node sent a program of another build"};
  }
  file_.reset();
  if (::rename(path_.c_str(), path_of(folder, build_).c_str()) != 0) {
    return Error::from_errno("naming " + path_, errno);
  }
  path_.clear();
  return {};
}

}  // namespace pharos::node
