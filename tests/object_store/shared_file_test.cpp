#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <pharos/object_store/shared_file.hpp>
#include <pharos/object_store/slab.hpp>
#include <pharos/object_store/store_memory.hpp>

namespace pharos::object_store {
namespace {

std::uint64_t storage_of(const SharedFile& file) {
  struct stat status {};
  EXPECT_EQ(::fstat(file.fd(), &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

TEST(SharedFileTest, TakesMemoryOnlyWhereItWasGivenStorage) {
  const auto file = SharedFile::make("test", 1_GiB).value();
  EXPECT_EQ(storage_of(file), 0);
  ASSERT_TRUE(file.allocate(64 << 20, 1 << 20).ok());
  EXPECT_EQ(storage_of(file), 1 << 20);
  file.release(64 << 20, 1 << 20);
  EXPECT_EQ(storage_of(file), 0);
}

TEST(SharedFileTest, ItsLengthNeverChanges) {
  const auto file = SharedFile::make("test", 64_MiB).value();
  EXPECT_NE(::ftruncate(file.fd(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(file.fd(), 128 << 20), 0);
}

TEST(SharedFileTest, WhatIsNoSealedMemoryIsRefused) {
  Fd unsealed{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);
  EXPECT_EQ(SharedFile::adopt(std::move(unsealed)).error().code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(SharedFile::adopt(Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}).ok());
}

TEST(SharedFileTest, StretchesOutsideOfItAreNotMapped) {
  const auto file = SharedFile::make("test", 64_MiB).value();
  for (const auto& [begin, bytes] : {std::pair<std::uint64_t, std::uint64_t>{0, (64 << 20) + 1},
                                     {~std::uint64_t{0} - 4095, 8192},
                                     {65 << 20, 4096},
                                     {0, 0}}) {
    EXPECT_EQ(Mapping::make(file, begin, bytes, Mapping::Access::kRead).error().code(), ErrorCode::kCorrupt);
  }
}

TEST(SharedFileTest, StorageThatTheSystemDoesNotHaveIsExhaustedAndNoSignal) {
  const auto file = SharedFile::make("test", ByteCount{std::uint64_t{1} << 50}).value();
  EXPECT_EQ(file.allocate(0, std::uint64_t{1} << 50).error().code(), ErrorCode::kExhausted);
  EXPECT_EQ(storage_of(file), 0);
}

TEST(SharedFileTest, WhatIsWrittenInALeasedSlabIsReadInTheWholeMapping) {
  const auto ledger_file = SharedFile::make("ledger", ByteCount{ObjectLedger::bytes_for(64, 2)}).value();
  const auto memory_of_ledger =
      Mapping::make(ledger_file, 0, ledger_file.length().bytes(), Mapping::Access::kReadAndWrite).value();
  ObjectLedger::format(memory_of_ledger.memory(), 64, 2);
  const auto objects = SharedFile::make("objects", 64_MiB).value();
  const auto memory = map_store(Fd{::dup(ledger_file.fd())}, Fd{::dup(objects.fd())}).value();
  const Slab slab{.offset = 1 << 20, .slot_bytes = 1 << 20, .first_slot = 8, .slots = 4};
  std::byte* const at = memory->open(slab).value();
  ASSERT_TRUE(memory->provide(slab, 0, slab.bytes()).ok());
  std::memset(at, 7, slab.bytes());
  EXPECT_EQ(memory->objects()[slab.offset + slab.bytes() - 1], std::byte{7});
  EXPECT_EQ(memory->ledger().slots(), 64);
  EXPECT_EQ(memory->ledger().tables(), 2);
}

TEST(SharedFileTest, ALedgerThatIsNoneIsRefused) {
  const auto ledger_file = SharedFile::make("ledger", 2_MiB).value();
  const auto objects = SharedFile::make("objects", 64_MiB).value();
  const auto attach = [&] { return map_store(Fd{::dup(ledger_file.fd())}, Fd{::dup(objects.fd())}); };
  EXPECT_EQ(attach().error().code(), ErrorCode::kCorrupt);
  const auto memory = Mapping::make(ledger_file, 0, 2 << 20, Mapping::Access::kReadAndWrite).value();
  ObjectLedger::format(memory.memory(), 64, 2);
  ASSERT_TRUE(attach().ok());
  const std::uint32_t too_many = ~std::uint32_t{0};
  std::memcpy(memory.memory().data() + sizeof(std::uint64_t), &too_many, sizeof too_many);
  EXPECT_EQ(attach().error().code(), ErrorCode::kCorrupt);
}

TEST(SharedFileTest, TheStoreIsNoLargerThanHalfTheMachine) {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto capacity = default_capacity().bytes();
  EXPECT_LE(capacity, std::max(pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 2 + kSlabUnit,
                               std::uint64_t{64} << 20));
  EXPECT_GE(capacity, 64U << 20);
}

}  // namespace
}  // namespace pharos::object_store
