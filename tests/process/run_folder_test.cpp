#include <gtest/gtest.h>
#include <sys/stat.h>
#include <utime.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include <pharos/process/run_folder.hpp>

#include "processes.hpp"

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() { ::setenv("PHAROS_FOLDER", folder_.path().c_str(), 1); }
  ~RunFolderTest() override { ::unsetenv("PHAROS_FOLDER"); }

  fs::path base() const { return folder_.path() / ("pharos-" + std::to_string(::geteuid())); }
  static unsigned mode_of(const fs::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  void expect_refused() const {
    const auto refused = ensure_base_folder();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kPermissionDenied) << refused.error().to_string();
    EXPECT_NE(refused.error().message().find(base().string()), std::string::npos);
    EXPECT_FALSE(refused.error().remedy().empty());
  }

  TemporaryFolder folder_;
};

TEST_F(RunFolderTest, TheBaseFolderIsMadeForThisUserAloneAndFoundAgain) {
  const auto made = ensure_base_folder();
  ASSERT_TRUE(made.ok()) << made.error().to_string();
  EXPECT_EQ(*made, base().string());
  EXPECT_EQ(mode_of(base()), 0700u);
  EXPECT_EQ(*ensure_base_folder(), *made);
}

TEST_F(RunFolderTest, WithoutPharosFolderItLiesInTmpdir) {
  const TemporaryFolder other;
  ::unsetenv("PHAROS_FOLDER");
  const char* const given = std::getenv("TMPDIR");
  const std::string before = given == nullptr ? "" : given;
  ::setenv("TMPDIR", other.path().c_str(), 1);
  EXPECT_EQ(*ensure_base_folder(), other.path().string() + "/pharos-" + std::to_string(::geteuid()));
  if (given == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", before.c_str(), 1);
  }
}

TEST_F(RunFolderTest, ABaseFolderThatOthersMayEnterIsRefused) {
  for (const mode_t mode : {0750, 0710, 0707, 0701, 0777}) {
    fs::remove(base());
    ASSERT_EQ(::mkdir(base().c_str(), 0700), 0);
    ASSERT_EQ(::chmod(base().c_str(), mode), 0);
    expect_refused();
  }
}

TEST_F(RunFolderTest, ABaseFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a folder away";
  ASSERT_EQ(::mkdir(base().c_str(), 0700), 0);
  ASSERT_EQ(::chown(base().c_str(), 12345, 12345), 0);
  expect_refused();
}

TEST_F(RunFolderTest, ASymlinkIsNoBaseFolder) {
  const TemporaryFolder target;
  ASSERT_EQ(::chmod(target.path().c_str(), 0700), 0);
  fs::create_directory_symlink(target.path(), base());
  EXPECT_FALSE(ensure_base_folder().ok());
}

TEST_F(RunFolderTest, AFileIsNoBaseFolder) {
  Fd{::open(base().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)}.reset();
  EXPECT_FALSE(ensure_base_folder().ok());
}

TEST_F(RunFolderTest, NamesAreNewAndNothingIsMade) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(new_run_folder_name(folder_.path()));
  EXPECT_EQ(names.size(), 100u);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(RunFolderTest, ARunFolderIsThisUsersAloneAndMadeOnce) {
  const std::string path = new_run_folder_name(folder_.path());
  ASSERT_TRUE(make_run_folder(path).ok());
  EXPECT_EQ(mode_of(path), 0700u);
  EXPECT_EQ(mode_of(path + "/lock"), 0600u);
  EXPECT_EQ(make_run_folder(path).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(make_run_folder(folder_.path() / "none" / "run-1").error().code(), ErrorCode::kNotFound);
}

TEST_F(RunFolderTest, RemovingTakesAllThatIsInItAndIsNoErrorTwice) {
  const std::string path = new_run_folder_name(folder_.path());
  ASSERT_TRUE(make_run_folder(path).ok());
  fs::create_directories(fs::path{path} / "a" / "b");
  remove_run_folder(path);
  EXPECT_FALSE(fs::exists(path));
  remove_run_folder(path);
}

TEST_F(RunFolderTest, ASweepRemovesThoseWhoseProcessesAreGoneAndNoOther) {
  const std::string dead = new_run_folder_name(folder_.path());
  EXPECT_EQ(in_a_child([&] { return make_run_folder(dead).ok() ? 0 : 1; }), 0);
  ASSERT_TRUE(fs::exists(dead));
  const std::string alive = new_run_folder_name(folder_.path());
  ASSERT_TRUE(make_run_folder(alive).ok());
  const fs::path foreign = folder_.path() / "something-else";
  fs::create_directory(foreign);
  const fs::path being_made = new_run_folder_name(folder_.path());
  fs::create_directory(being_made);
  const fs::path never_finished = new_run_folder_name(folder_.path());
  fs::create_directory(never_finished);
  const utimbuf long_ago{.actime = 1, .modtime = 1};
  ASSERT_EQ(::utime(never_finished.c_str(), &long_ago), 0);

  sweep_run_folders(folder_.path());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(never_finished));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(being_made)) << "its maker has not come to the lock yet";
  sweep_run_folders(folder_.path() / "none");  // no error
}

}  // namespace
}  // namespace pharos::process
