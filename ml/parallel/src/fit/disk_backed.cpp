#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/ml/disk_backed.hpp>

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargeFrom = 1 << 20;

struct Mapping {
  void* memory;
  std::size_t bytes;
};

void unmap(void* context) {
  const std::unique_ptr<Mapping> mapping{static_cast<Mapping*>(context)};
  ::munmap(mapping->memory, mapping->bytes);
}

[[noreturn]] void fail(ErrorCode code, const fs::path& folder, const std::string& what, const char* remedy) {
  throw_error(Error{code, "tensors cannot be stored in " + folder.string() + ": " + what, remedy});
}

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// Makes a file without a name.
Fd file_in(const fs::path& folder) {
  if (Fd file{::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)}) return file;
  // The file system does not support O_TMPFILE.
  std::string name = folder / "pharos-tensor-XXXXXX";
  Fd file{::mkostemp(name.data(), O_CLOEXEC)};
  if (file && ::unlink(name.c_str()) == 0) return file;
  fail(ErrorCode::kFailedPrecondition, folder, reason(errno), "Give a folder on a disk of this machine.");
}

/// Lives as long as the process, because storages keep the allocator that has made them, and use it again when they
/// grow.
class DiskAllocator final : public c10::Allocator {
 public:
  static DiskAllocator& instance() {
    static auto* const only = new DiskAllocator;
    return *only;
  }

  /// Returns false if it has a folder already.
  bool begin(const fs::path& folder) {
    const std::lock_guard lock{mutex_};
    if (folder_) return false;
    folder_ = folder;
    return true;
  }
  void end() {
    const std::lock_guard lock{mutex_};
    folder_.reset();
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    const auto folder = [this] {
      const std::lock_guard lock{mutex_};
      return folder_;
    }();
    if (!folder || bytes < kLargeFrom) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    const Fd file = file_in(*folder);
    // Reserves the room on the disk at once. Otherwise a full disk would be noticed at the first write to a page, as a
    // signal (SIGBUS).
    const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
    if (error != 0)
      fail(ErrorCode::kExhausted, *folder, reason(error), "Free some space, or give a folder on another disk.");
    auto mapping = std::make_unique<Mapping>(Mapping{nullptr, bytes});
    mapping->memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapping->memory == MAP_FAILED) {
      fail(ErrorCode::kExhausted, *folder, reason(errno), "This process has reached its limit of memory mappings.");
    }
    void* const memory = mapping->memory;
    return {memory, mapping.release(), &unmap, c10::Device{c10::kCPU}};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  std::mutex mutex_;
  std::optional<fs::path> folder_;
};

c10::Allocator* allocator_before = nullptr;  // libtorch's allocator before the present DiskBacked was made

}  // namespace

DiskBacked::DiskBacked(const fs::path& folder) {
  const Fd file = file_in(folder);
  struct statfs status {};
  if (::fstatfs(file.get(), &status) != 0) {
    fail(ErrorCode::kFailedPrecondition, folder, reason(errno), "Give a folder on a disk of this machine.");
  }
  if (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC) {
    fail(ErrorCode::kFailedPrecondition, folder, "its file system is in memory",
         "Give a folder on a disk of this machine.");
  }
  if (!DiskAllocator::instance().begin(folder)) {
    fail(ErrorCode::kFailedPrecondition, folder, "this process already has a DiskBacked",
         "Destroy the other DiskBacked first.");
  }
  allocator_before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&DiskAllocator::instance());
}

DiskBacked::~DiskBacked() {
  c10::SetCPUAllocator(allocator_before);
  DiskAllocator::instance().end();
}

}  // namespace pharos::ml
