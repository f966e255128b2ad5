#include "shared/shared_memory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>

namespace pharos::ml {
namespace {

Result<Mapping> map(int file, std::size_t bytes, int flags) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) return Error::from_errno("mapping memory that ranks share", errno);
  return Mapping{static_cast<std::byte*>(memory), bytes};
}

}  // namespace

Result<Fd> make_file(const std::string& name) {
  Fd file{::memfd_create(name.c_str(), MFD_CLOEXEC)};
  if (!file) return Error::from_errno("allocating memory that ranks share", errno);
  return file;
}

Result<Fd> make_memory(const std::string& name, std::size_t bytes) {
  PHAROS_TRY(Fd file, make_file(name));
  PHAROS_TRY_VOID(take_memory(file.get(), {0, bytes}));
  return file;
}

Result<void> take_memory(int file, Part part) {
  // At a signal some kernels stop and give all the memory back. If signals came again and again, this loop would never
  // end, so all signals are blocked.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  do {
    error = ::posix_fallocate(file, static_cast<off_t>(part.begin), static_cast<off_t>(part.size));
  } while (error == EINTR);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    return Error::from_errno("allocating " + std::to_string(part.size) + " bytes that ranks share", error);
  return {};
}

Mapping::~Mapping() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Result<Mapping> Mapping::of(int file, std::size_t bytes) {
  return map(file, bytes, file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE);
}

Result<Mapping> Mapping::of_unfinished(int file, std::size_t bytes) {
  return map(file, bytes, MAP_SHARED);
}

}  // namespace pharos::ml
