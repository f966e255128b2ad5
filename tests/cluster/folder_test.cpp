#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "temporary_folder.hpp"

namespace pharos::cluster::folder {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

int twice(int value) {
  return 2 * value;
}

/// Sets an environment variable. The destructor restores its former value.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_{name} {
    if (const char* const before = ::getenv(name)) before_ = before;
    set(value);
  }
  Variable(Variable&&) = delete;
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }
  const char* const name_;
  std::optional<std::string> before_;
};

class FolderTest : public ClusterTest {
 protected:
  fs::path base() const { return census().folder() / ("pharos-" + std::to_string(::geteuid())); }

  template <class E>
  static std::string refusal() {
    return message_of<E>([] { const Runtime runtime; });
  }
};

TEST_F(FolderTest, AFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  fs::create_directory(base());
  ASSERT_EQ(::chown(base().c_str(), 4711, 4711), 0);
  ::chmod(base().c_str(), 0700);
  const std::string text = refusal<PermissionDenied>();
  EXPECT_SAYS(text, base().string());
  EXPECT_SAYS(text, "4711");
  EXPECT_SAYS(text, "PHAROS_FOLDER");
}

TEST_F(FolderTest, AFolderThatOthersMayEnterIsRefused) {
  fs::create_directory(base());
  for (const mode_t mode : {0750, 0705, 0777}) {
    ::chmod(base().c_str(), mode);
    const std::string text = refusal<PermissionDenied>();
    EXPECT_SAYS(text, base().string());
    EXPECT_SAYS(text, "chmod 700");
  }
}

TEST_F(FolderTest, ALinkInTheFoldersPlaceIsRefused) {
  fs::create_directory(census().folder() / "elsewhere");
  fs::create_symlink("elsewhere", base());
  const std::string text = refusal<Unavailable>();
  EXPECT_SAYS(text, base().string());
  EXPECT_SAYS(text, "PHAROS_FOLDER");
  EXPECT_TRUE(fs::is_empty(census().folder() / "elsewhere")) << "followed a link that anybody could have made";
  fs::remove(base());
}

TEST_F(FolderTest, AFileInTheFoldersPlaceIsNamed) {
  std::ofstream{base()} << "a file";
  const std::string text = refusal<Unavailable>();
  EXPECT_SAYS(text, base().string());
  EXPECT_SAYS(text, "PHAROS_FOLDER");
  EXPECT_EQ(fs::file_size(base()), 6U) << "the file was changed";
  fs::remove(base());
}

TEST_F(FolderTest, AFolderThatCannotBeMadeIsNamed) {
  const Variable folder{"PHAROS_FOLDER", (census().folder() / "none").c_str()};
  const std::string text = refusal<NotFound>();
  EXPECT_SAYS(text, (census().folder() / "none").string());
  EXPECT_SAYS(text, "PHAROS_FOLDER");
}

TEST_F(FolderTest, AFolderThatIsNotWritableIsNamed) {
  const Variable folder{"PHAROS_FOLDER", "/sys"};  // not even root can make a folder there
  const std::string text = refusal<PermissionDenied>();
  EXPECT_SAYS(text, "/sys/pharos-");
  EXPECT_SAYS(text, "PHAROS_FOLDER");
}

TEST_F(FolderTest, ARelativeFolderIsMadeInTheCurrentFolderAndNowhereElse) {
  const auto before = fs::current_path();
  fs::current_path(census().folder());
  {
    const Variable folder{"PHAROS_FOLDER", "."};
    Runtime runtime;
    EXPECT_EQ(runtime.submit<&twice>(2).get(), 4);
    EXPECT_TRUE(fs::exists(base()));
  }
  fs::current_path(before);
  EXPECT_FALSE(fs::exists("/pharos-" + std::to_string(::geteuid())));
}

// Runs copies of the programs in another folder, because the other user may have no access to the build folder.
TEST_F(FolderTest, AnotherUserThanRootCanRunACluster) {
  if (::geteuid() != 0) GTEST_SKIP() << "this is another user already";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(census().folder().c_str(), kNobody, kNobody), 0);
  for (fs::path each = census().folder(); each != fs::temp_directory_path(); each = each.parent_path()) {
    ::chmod(each.c_str(), 0755);
  }
  const TemporaryFolder copies;
  const fs::path& folder = copies.path();
  ::chmod(folder.c_str(), 0755);
  fs::copy_file(CLUSTER_DRIVER, folder / "driver");
  fs::copy_file(PHAROS_EXECUTABLE, folder / "pharos");
  fs::copy_file(PHAROS_LIBRARY, folder / PHAROS_LIBRARY_NAME);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
    ::setenv("PHAROS_DAEMON", (folder / "pharos").c_str(), 1);
    if (::chdir(folder.c_str()) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0) {
      ::execl((folder / "driver").c_str(), "driver", "quiet", nullptr);
    }
    ::_exit(127);
  }
  ::close(ends[1]);
  char line[512] = {};
  EXPECT_GT(::read(ends[0], line, sizeof line - 1), 0);
  EXPECT_STREQ(line, "ready\n");
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
}

TEST_F(FolderTest, WhatADeadClusterLeftTheNextStartTakesAway) {
  const auto dead = base() / "run-0123456789abcdef";
  fs::create_directory(base());
  ::chmod(base().c_str(), 0700);
  fs::create_directory(dead);
  std::ofstream{dead / "lock"} << "";
  std::ofstream{dead / "token"} << "old";
  { const Runtime runtime; }
  EXPECT_FALSE(fs::exists(dead));
}

class LongFolderTest : public ClusterTest {
 protected:
  LongFolderTest() : ClusterTest(200) {}
};

TEST_F(LongFolderTest, AFolderOfTwoHundredBytesWorksAndItsSocketCanBeJoined) {
  const Variable temporary{"TMPDIR", census().folder().c_str()};
  const Variable folder{"PHAROS_FOLDER", nullptr};
  Runtime runtime;
  EXPECT_EQ(runtime.submit<&twice>(2).get(), 4);
  EXPECT_GT(runtime.address().size(), 200u);
  EXPECT_SAYS(runtime.address(), census().folder().string());
  Runtime joined{RuntimeOptions{.address = runtime.address(), .token_file = {}, .listen = {}}};
  EXPECT_EQ(joined.submit<&twice>(3).get(), 6);
}

class DaemonTest : public ClusterTest {
 protected:
  std::string script(const std::string& text) const {
    const auto path = census().folder() / "daemon";
    std::ofstream{path} << "#!/bin/sh\n" << text << "\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }
  void TearDown() override {
    fs::remove(census().folder() / "daemon");
    ClusterTest::TearDown();
  }
};

TEST_F(DaemonTest, ADaemonThatIsNotThereIsNamedWithItsVariable) {
  const Variable daemon{"PHAROS_DAEMON", "/nowhere/pharos"};
  const std::string text = message_of<NotFound>([] { const Runtime runtime; });
  EXPECT_SAYS(text, "/nowhere/pharos");
  EXPECT_SAYS(text, "PHAROS_DAEMON");
}

TEST_F(DaemonTest, ADaemonThatCannotBeExecutedIsNamedWithItsVariable) {
  const std::string path = script("exit 0");
  ::chmod(path.c_str(), 0644);
  const Variable daemon{"PHAROS_DAEMON", path.c_str()};
  const std::string text = message_of<NotFound>([] { const Runtime runtime; });
  EXPECT_SAYS(text, path);
  EXPECT_SAYS(text, "PHAROS_DAEMON");
}

TEST_F(DaemonTest, ADaemonThatEndsAtOnceIsATypedErrorAtOnce) {
  const Variable daemon{"PHAROS_DAEMON", "/bin/false"};
  const auto waited = time_of([] {
    const std::string text = message_of<Unavailable>([] { const Runtime runtime; });
    EXPECT_SAYS(text, "/bin/false");
  });
  EXPECT_LT(waited, 2s);
}

TEST_F(DaemonTest, ADaemonThatNeverAnswersIsGivenUpAndEnded) {
  must_end_within(100s);
  const Variable daemon{"PHAROS_DAEMON", script("exec sleep 1000").c_str()};
  const auto waited = time_of([] { EXPECT_SAYS(message_of<Unavailable>([] { const Runtime runtime; }), "/daemon"); });
  EXPECT_LT(waited, 15s) << "the daemon is one small program: it need not be given a minute to say its first word";
  fs::remove(census().folder() / "daemon");
  census().expect_nothing_left(1s);
}

}  // namespace
}  // namespace pharos::cluster::folder
