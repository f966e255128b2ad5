#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "store_test.hpp"
#include "temporary_folder.hpp"
#include "unprivileged.hpp"

// Tests of disks that are full or read-only, and of folders that belong to another user.

namespace pharos::storage {
namespace {

namespace fs = std::filesystem;

/// A small tmpfs of 40 MiB.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& at) : at_{at} {
    fs::create_directories(at);
    if (::mount("none", at.c_str(), "tmpfs", 0, "size=40m") != 0) failure_ = std::strerror(errno);
  }
  SmallDisk(SmallDisk&&) = delete;
  ~SmallDisk() {
    if (failure_.empty()) ::umount(at_.c_str());
  }

  /// The reason why the disk could not be mounted; empty if it was. A test that needs the disk fails with this text.
  const std::string& failure() const { return failure_; }

  void make_larger() { remount(0, "size=200m"); }
  void make_read_only() { remount(MS_RDONLY, "size=40m"); }

 private:
  void remount(unsigned long flags, const char* options) {
    PHAROS_CHECK(::mount("none", at_.c_str(), "tmpfs", MS_REMOUNT | flags, options) == 0, std::strerror(errno));
  }

  fs::path at_;
  std::string failure_;
};

class DiskTest : public StoreTest {
 protected:
  void expect_refused(ErrorCode code, const fs::path& folder) {
    const auto opened = open_rocksdb(folder);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code(), code) << opened.error().to_string();
    EXPECT_NE(opened.error().message().find(folder.string()), std::string::npos) << opened.error().to_string();
  }

  TemporaryFolder folder_;
};

TEST_F(DiskTest, AFolderIsMadeWithAllAboveIt) {
  const auto store = must_open(folder_.path() / "a" / "b");
  EXPECT_TRUE(put(*store, "k", "v").ok());
}

TEST_F(DiskTest, AFullDiskLosesNothingAndTheStoreGoesOnWhenThereIsRoom) {
  SmallDisk disk{folder_.path() / "disk"};
  ASSERT_EQ(disk.failure(), "") << "this test mounts a tmpfs, which takes root";
  const auto folder = folder_.path() / "disk" / "store";
  auto store = must_open(folder);
  const std::string value(1 << 20, 'x');
  int acknowledged = 0;
  std::optional<Error> failure;
  while (!failure && acknowledged < 1000) {
    auto written = put(*store, std::to_string(acknowledged), value);
    if (written.ok()) {
      ++acknowledged;
    } else {
      failure = std::move(written).error();
    }
  }
  ASSERT_TRUE(failure.has_value());
  EXPECT_GT(acknowledged, 5);
  EXPECT_EQ(failure->code(), ErrorCode::kExhausted) << failure->to_string();
  EXPECT_NE(failure->message().find(folder.string()), std::string::npos) << failure->to_string();
  EXPECT_EQ(get(*store, "0"), value) << "reads go on";

  disk.make_larger();
  EXPECT_EQ(put(*store, "later", "").error().code(), ErrorCode::kFailedPrecondition);
  store.reset();
  store = must_open(folder);
  for (int i = 0; i < acknowledged; ++i) ASSERT_EQ(get(*store, std::to_string(i)), value) << i;
  EXPECT_LE(contents(*store).size(), static_cast<std::size_t>(acknowledged) + 1);
  EXPECT_TRUE(put(*store, "again", "1").ok());
}

TEST_F(DiskTest, OpeningOnAFullDiskSaysSo) {
  SmallDisk disk{folder_.path() / "disk"};
  ASSERT_EQ(disk.failure(), "") << "this test mounts a tmpfs, which takes root";
  {
    std::ofstream filler{folder_.path() / "disk" / "filler"};
    const std::string megabyte(1 << 20, 'x');
    while (filler << megabyte << std::flush) {
    }
  }
  expect_refused(ErrorCode::kExhausted, folder_.path() / "disk");
}

TEST_F(DiskTest, AReadOnlyDiskIsRefused) {
  SmallDisk disk{folder_.path() / "disk"};
  ASSERT_EQ(disk.failure(), "") << "this test mounts a tmpfs, which takes root";
  disk.make_read_only();
  expect_refused(ErrorCode::kPermissionDenied, folder_.path() / "disk");
}

TEST_F(DiskTest, AFolderOfSomebodyElseIsRefused) {
  const auto folder = folder_.path() / "theirs";
  fs::create_directories(folder);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const Unprivileged unprivileged;
  expect_refused(ErrorCode::kPermissionDenied, folder);
}

TEST_F(DiskTest, AFileIsNoFolder) {
  const auto file = folder_.path() / "file";
  std::ofstream{file} << "not a folder";
  expect_refused(ErrorCode::kInvalidArgument, file);
  expect_refused(ErrorCode::kInvalidArgument, file / "below");
}

}  // namespace
}  // namespace pharos::storage
