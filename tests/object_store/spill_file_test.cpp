#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <pharos/object_store/checksum.hpp>
#include <pharos/object_store/spill_file.hpp>

#include "plain_store.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace {
thread_local bool has_no_memory = false;
}

/// The C library's function, which gives this thread no memory while `has_no_memory` is true.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = nullptr;
  if (has_no_memory || ::posix_memalign(&memory, alignment, size) != 0) return nullptr;
  return memory;
}

namespace pharos::object_store {
namespace {

class SpillFileTest : public SeededTest {
 protected:
  void fill_memory(std::uint64_t from, std::uint64_t size, std::uint64_t number) {
    fill(memory_mapping_.memory().subspan(from, size), number);
  }
  bool memory_holds(std::uint64_t from, std::uint64_t size, std::uint64_t number) {
    return holds(memory_mapping_.memory().subspan(from, size), number);
  }
  static std::uint64_t storage_of(int file) {
    struct stat status {};
    EXPECT_EQ(::fstat(file, &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  /// Opens the spill file, and a second descriptor of it that the SpillFile does not know of.
  void open_file() {
    Fd file = SpillFile::open_in(folder_.path()).value();
    behind_ = Fd{::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDWR | O_CLOEXEC)};
    spilled_.emplace(std::move(file), folder_.path());
  }

  Result<SpillFile::Kept> write(std::uint64_t from, std::uint64_t size) {
    PHAROS_TRY(SpillFile::Kept kept, spilled_->reserve(size));
    if (auto written = spilled_->write(kept, 0, pieces_of(size), memory_, from); !written) {
      spilled_->drop(kept);
      return std::move(written).error();
    }
    return kept;
  }
  Result<void> read(const SpillFile::Kept& kept, std::uint64_t to) {
    return spilled_->read(kept, 0, pieces_of(kept.size), memory_, to);
  }

  TemporaryFolder folder_;
  const SharedFile memory_ = SharedFile::make("memory", 64_MiB).value();
  const Mapping memory_mapping_ = Mapping::make(memory_, 0, 64 * kMiB, Mapping::Access::kReadAndWrite).value();
  Fd behind_;
  std::optional<SpillFile> spilled_;
};

TEST_F(SpillFileTest, WhatWasWrittenComesBack) {
  open_file();
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{4096}, kMiB - 8, kMiB, kMiB + 8, 5 * kMiB + 12345}) {
    fill_memory(0, size, size);
    const auto kept = write(0, size);
    ASSERT_TRUE(kept.ok());
    ASSERT_TRUE(read(*kept, 32 * kMiB).ok());
    EXPECT_TRUE(memory_holds(32 * kMiB, size, size)) << size;
    spilled_->drop(*kept);
  }
  EXPECT_EQ(spilled_->bytes(), 0);
  EXPECT_EQ(storage_of(behind_.get()), 0) << "the disk has its space again";
}

TEST_F(SpillFileTest, PartsOfAnObjectComeAndGoAtOnce) {
  open_file();
  const std::uint64_t size = 9 * kMiB + 100;
  fill_memory(0, size, 3);
  auto kept = spilled_->reserve(size).value();
  const auto in_parts = [&](auto transfer) {
    std::vector<std::thread> threads;
    for (std::size_t part = 0; part < 5; ++part) {
      threads.emplace_back([&transfer, part] { EXPECT_TRUE(transfer(part * 2).ok()); });
    }
    for (auto& thread : threads) thread.join();
  };
  in_parts([&](std::size_t first) { return spilled_->write(kept, first, 2, memory_, 0); });
  in_parts([&](std::size_t first) { return spilled_->read(kept, first, 2, memory_, 32 * kMiB); });
  EXPECT_TRUE(memory_holds(32 * kMiB, size, 3));
  spilled_->drop(kept);
}

TEST_F(SpillFileTest, NothingOfItHasAName) {
  open_file();
  fill_memory(0, kMiB, 1);
  const auto kept = write(0, kMiB).value();
  EXPECT_GE(storage_of(behind_.get()), kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  spilled_->drop(kept);
}

TEST_F(SpillFileTest, ManyObjectsLieInOneFileAndThreadsDoNotMixThem) {
  open_file();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([this, t, seed = random_()] {
      std::mt19937_64 random{seed};
      const std::uint64_t from = t * 16 * kMiB;
      std::vector<std::pair<SpillFile::Kept, std::uint64_t>> kept;
      for (std::uint64_t i = 1; i <= 30; ++i) {
        const std::uint64_t size = 1000 + random() % (2 * kMiB);
        fill_memory(from, size, i << 32);
        kept.emplace_back(write(from, size).value(), i << 32);
        const std::size_t which = random() % kept.size();
        const auto& [its, number] = kept[which];
        ASSERT_TRUE(read(its, from + 8 * kMiB).ok());
        ASSERT_TRUE(memory_holds(from + 8 * kMiB, its.size, number));
        if (kept.size() < 5) continue;
        spilled_->drop(its);
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(which));
      }
      for (const auto& [its, number] : kept) spilled_->drop(its);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(spilled_->bytes(), 0);
}

TEST_F(SpillFileTest, ABitThatFlippedIsFound) {
  open_file();
  const std::uint64_t size = 3 * kMiB + 1000;
  fill_memory(0, size, 7);
  const auto kept = write(0, size).value();
  for (int i = 0; i < 20; ++i) {
    const auto at = static_cast<off_t>(kept.offset + between(0, size - 1));
    unsigned char byte = 0;
    ASSERT_EQ(::pread(behind_.get(), &byte, 1, at), 1);
    const auto flipped = static_cast<unsigned char>(byte ^ 1U << between(0, 7));
    ASSERT_EQ(::pwrite(behind_.get(), &flipped, 1, at), 1);
    const auto damaged = read(kept, 32 * kMiB);
    ASSERT_FALSE(damaged.ok()) << at;
    EXPECT_EQ(damaged.error().code(), ErrorCode::kCorrupt);
    ASSERT_EQ(::pwrite(behind_.get(), &byte, 1, at), 1);
  }
  EXPECT_TRUE(read(kept, 32 * kMiB).ok());
  spilled_->drop(kept);
}

TEST_F(SpillFileTest, AFileThatWasCutOffIsFound) {
  open_file();
  fill_memory(0, 3 * kMiB, 7);
  const auto kept = write(0, 3 * kMiB).value();
  ASSERT_EQ(::ftruncate(behind_.get(), static_cast<off_t>(2 * kMiB)), 0);
  EXPECT_EQ(read(kept, 32 * kMiB).error().code(), ErrorCode::kCorrupt);
  spilled_->drop(kept);
}

TEST_F(SpillFileTest, AFullDiskIsExhaustedAndGoesOnWhenThereIsRoom) {
  if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=16m") != 0) {
    GTEST_SKIP() << "mounting a tmpfs needs root";
  }
  {
    open_file();
    fill_memory(0, 10 * kMiB, 7);
    const auto first = write(0, 10 * kMiB).value();
    const auto failed = write(0, 10 * kMiB);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code(), ErrorCode::kExhausted);
    EXPECT_NE(failed.error().to_string().find(folder_.path()), std::string::npos) << failed.error().to_string();
    EXPECT_EQ(storage_of(behind_.get()), 10 * kMiB) << "nothing is left of what did not fit";
    spilled_->drop(first);
    const auto again = write(0, 10 * kMiB);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    ASSERT_TRUE(read(*again, 32 * kMiB).ok());
    EXPECT_TRUE(memory_holds(32 * kMiB, 10 * kMiB, 7));
    spilled_.reset();
    behind_ = {};
  }
  EXPECT_EQ(::umount(folder_.path().c_str()), 0);
}

TEST_F(SpillFileTest, WithoutMemoryForItselfItIsExhaustedAndGoesOnWhenThereIsSome) {
  open_file();
  fill_memory(0, 2 * kMiB, 7);
  has_no_memory = true;
  const auto unwritten = write(0, 2 * kMiB);
  has_no_memory = false;
  ASSERT_FALSE(unwritten.ok());
  EXPECT_EQ(unwritten.error().code(), ErrorCode::kExhausted);

  const auto kept = write(0, 2 * kMiB).value();
  has_no_memory = true;
  const auto unread = read(kept, 32 * kMiB);
  has_no_memory = false;
  ASSERT_FALSE(unread.ok());
  EXPECT_EQ(unread.error().code(), ErrorCode::kExhausted);
  ASSERT_TRUE(read(kept, 32 * kMiB).ok());
  EXPECT_TRUE(memory_holds(32 * kMiB, 2 * kMiB, 7));
  spilled_->drop(kept);
}

TEST_F(SpillFileTest, AFolderThatIsNotThereIsNamed) {
  const auto failed = SpillFile::open_in(folder_.path() / "missing");
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().to_string().find("missing"), std::string::npos);
}

}  // namespace
}  // namespace pharos::object_store
