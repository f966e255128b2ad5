#include "new_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/whole_files.hpp>

namespace pharos::ml {
namespace {

constexpr const char* kRemedy = "Make room, or give another folder.";

std::filesystem::path begun_of(const std::filesystem::path& path) {
  std::random_device random;
  char number[17]{};
  std::snprintf(number, sizeof number, "%08x%08x", random(), random());
  return path.string() + '.' + number + ".begun";
}

}  // namespace

NewFile::NewFile(std::filesystem::path path)
    : path_{std::move(path)},
      what_{"writing " + path_.string()},
      begun_{begun_of(path_)},
      file_{::open(begun_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)} {
  if (!file_) fail(errno);
}

NewFile::~NewFile() {
  if (!is_named_) ::unlink(begun_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  const auto written = write_whole(file_, bytes, what_, kRemedy);
  if (!written) throw_error(written.error());
}

void NewFile::finish() {
  if (::fdatasync(file_.get()) != 0) fail(errno);
  if (::rename(begun_.c_str(), path_.c_str()) != 0) fail(errno);
  is_named_ = true;
  // The name survives a crash of the machine when the folder is on disk.
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path{"."};
  const Fd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened || ::fsync(opened.get()) != 0) fail(errno);
}

void NewFile::fail(int error_number) const {
  throw_error(Error::from_errno(what_, error_number, kRemedy));
}

}  // namespace pharos::ml
