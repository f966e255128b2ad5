#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include <pharos/base/machine_limits.hpp>
#include <pharos/object_store/shared_file.hpp>
#include <pharos/object_store/slab.hpp>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace pharos::object_store {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
constexpr std::uint64_t kCapacityMin = std::uint64_t{64} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// How much memory the system can give without swapping.
std::uint64_t available_memory() {
  std::ifstream file{"/proc/meminfo"};
  for (std::string name; file >> name; file.ignore(1024, '\n')) {
    std::uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib << 10;
  }
  return ~std::uint64_t{0};
}

}  // namespace

Result<SharedFile> SharedFile::make(const std::string& name, ByteCount length) {
  Fd file{::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file) return Error::from_errno("making shared memory", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(length.bytes())) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return Error::from_errno("making " + to_string(length) + " of shared memory", errno);
  }
  return SharedFile{std::move(file), length};
}

Result<SharedFile> SharedFile::adopt(Fd file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Error::from_errno("looking at shared memory", errno);
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Error{ErrorCode::kCorrupt, "received shared memory that could shrink while it is read"};
  }
  return SharedFile{std::move(file), ByteCount{static_cast<std::uint64_t>(status.st_size)}};
}

Result<void> SharedFile::allocate(std::uint64_t begin, std::uint64_t bytes) const {
  // The kernel would rather kill a process than refuse memory, so the available memory is checked first.
  if (const std::uint64_t available = available_memory(); bytes > available) {
    return Error{ErrorCode::kExhausted,
                 "shared memory: " + to_string(ByteCount{bytes}) + " were asked for, and the system has " +
                     to_string(ByteCount{available}) + " left",
                 "Let go of Refs, or give the machine more memory."};
  }
  int done = 0;
  do {
    done = ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  if (done == 0) return {};
  const Error why =
      Error::from_errno("asking the system for " + to_string(ByteCount{bytes}) + " of shared memory", errno);
  return Error{ErrorCode::kExhausted, why.message(), "Let go of Refs, or give the machine more memory."};
}

void SharedFile::release(std::uint64_t begin, std::uint64_t bytes) const {
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(bytes));
}

Result<Mapping> Mapping::make(const SharedFile& file, std::uint64_t begin, std::uint64_t bytes, Access access) {
  if (begin > file.length().bytes() || bytes > file.length().bytes() - begin || bytes == 0) {
    return Error{ErrorCode::kCorrupt, "a stretch lies outside of the shared memory"};
  }
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.fd(), static_cast<off_t>(begin));
  if (at == MAP_FAILED) {
    return Error::from_errno("mapping " + to_string(ByteCount{bytes}) + " of shared memory", errno,
                             "A limit on address space (ulimit -v) must leave room for the whole object store.");
  }
  ::madvise(at, bytes, MADV_DONTDUMP);
  ::madvise(at, bytes, MADV_HUGEPAGE);  // has an effect only if huge pages are enabled for shared memory
  return Mapping{{static_cast<std::byte*>(at), bytes}};
}

Mapping::~Mapping() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

// The pages are entered for reading: the kernel then enters sixteen pages at a time, and allows writing too, because it
// need not track writes to memory without a file on disk. For writing it would enter the pages one by one.
void enter_pages(std::span<std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / kPageBytes * kPageBytes;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  // Linux before 5.14 does not know this advice, and enters pages at their first use.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

ByteCount default_capacity() {
  return whole_slab_units(ByteCount{std::max(MachineLimits{}.memory().bytes() / 2, kCapacityMin)});
}

}  // namespace pharos::object_store
