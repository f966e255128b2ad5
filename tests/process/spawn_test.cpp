#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include <pharos/process/spawn.hpp>

#include "processes.hpp"

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

class SpawnTest : public testing::Test {
 protected:
  /// Runs the program. Returns the lines that it writes.
  std::vector<std::string> run(Program program) {
    Pipe output;
    program.moved.emplace_back(output.to.get(), STDOUT_FILENO);
    const auto pid = spawn(program);
    EXPECT_TRUE(pid.ok()) << pid.error().to_string();
    std::string text;
    EXPECT_TRUE(output.read_all(text));
    int status = 0;
    EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
    EXPECT_EQ(status, 0);
    std::istringstream stream{text};
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  static std::vector<std::string> those_of(const std::vector<std::string>& lines, const std::string& kind) {
    std::vector<std::string> found;
    for (const auto& line : lines) {
      if (line.starts_with(kind + " ")) found.push_back(line.substr(kind.size() + 1));
    }
    return found;
  }
  static std::vector<int> descriptors_of(const std::vector<std::string>& lines) {
    std::vector<int> found;
    for (const auto& text : those_of(lines, "descriptor")) found.push_back(std::atoi(text.c_str()));
    return found;
  }

  static Program child() {
    Program program;
    program.path = PROCESS_CHILD;
    program.arguments = {"child"};
    return program;
  }

  TemporaryFolder folder_;
};

TEST_F(SpawnTest, ArgumentsEnvironmentAndFolderAreThoseThatWereGiven) {
  Program program = child();
  program.arguments = {"name", "", "two words"};
  program.environment = {"A=1", "B="};
  program.folder = folder_.path();
  const auto lines = run(std::move(program));
  EXPECT_EQ(those_of(lines, "argument"), (std::vector<std::string>{"name", "", "two words"}));
  EXPECT_EQ(those_of(lines, "environment"), (std::vector<std::string>{"A=1", "B="}));
  EXPECT_EQ(those_of(lines, "folder"), std::vector<std::string>{fs::canonical(folder_.path()).string()});
}

TEST_F(SpawnTest, WithoutAFolderItIsThisProcesss) {
  EXPECT_EQ(those_of(run(child()), "folder"), std::vector<std::string>{fs::current_path().string()});
}

TEST_F(SpawnTest, TheChildHasTheMovedDescriptorsAndTheStandardOnesAndNoOther) {
  const Pipe one;
  const Pipe two;
  const int leaked = ::open("/dev/null", O_RDONLY);  // not closed on exec
  const Fd close_it{leaked};
  const Fd high{::fcntl(leaked, F_DUPFD, 500)};
  Program program = child();
  program.moved = {{one.to.get(), 5}, {two.from.get(), 9}};
  const auto lines = run(std::move(program));
  EXPECT_EQ(descriptors_of(lines), (std::vector<int>{0, 1, 2, 5, 9}));
}

TEST_F(SpawnTest, DescriptorsMayBeMovedCrosswise) {
  const Fd first{::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const Fd second{::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  Program program = child();
  program.moved = {{first.get(), second.get()}, {second.get(), first.get()}};
  const auto lines = those_of(run(std::move(program)), "descriptor");
  const auto named = [&](const Fd& fd, const std::string& target) {
    const std::string line = std::to_string(fd.get()) + " " + target;
    return std::count(lines.begin(), lines.end(), line) == 1;
  };
  EXPECT_TRUE(named(second, fs::canonical(folder_.path()).string()));
  EXPECT_TRUE(named(first, "/"));
}

TEST_F(SpawnTest, ASessionOfItsOwnIsMadeWhenItIsAskedFor) {
  EXPECT_EQ(those_of(run(child()), "leads its session"), std::vector<std::string>{"no"});
  Program program = child();
  program.new_session = true;
  EXPECT_EQ(those_of(run(std::move(program)), "leads its session"), std::vector<std::string>{"yes"});
}

TEST_F(SpawnTest, SignalsAreAsAProgramExpectsThem) {
  sigset_t some;
  sigset_t before;
  ::sigemptyset(&some);
  ::sigaddset(&some, SIGUSR1);
  ::sigaddset(&some, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &some, &before);
  const auto handler = ::signal(SIGPIPE, SIG_IGN);
  const auto lines = run(child());
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  ::signal(SIGPIPE, handler);
  EXPECT_TRUE(those_of(lines, "blocked").empty());
  EXPECT_TRUE(those_of(lines, "ignored").empty());
  EXPECT_EQ(::sigismember(&after, SIGUSR1), 1) << "this thread's mask is as it was";
}

TEST_F(SpawnTest, WhatCannotStartIsAnErrorThatNamesIt) {
  Program missing = child();
  missing.path = (folder_.path() / "missing").string();
  const auto none = spawn(missing);
  EXPECT_EQ(none.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(none.error().message().find(missing.path), std::string::npos);

  Program forbidden = child();
  forbidden.path = (folder_.path() / "file").string();
  Fd{::open(forbidden.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)}.reset();
  EXPECT_EQ(spawn(forbidden).error().code(), ErrorCode::kPermissionDenied);

  Program nowhere = child();
  nowhere.folder = (folder_.path() / "missing").string();
  EXPECT_EQ(spawn(nowhere).error().code(), ErrorCode::kNotFound);

  Program closed = child();
  closed.moved = {{1'000'000, 5}};
  EXPECT_FALSE(spawn(closed).ok());
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child that could not start is reaped";
}

TEST_F(SpawnTest, WhatCannotStartLeavesTheReasonInErrno) {
  const auto errno_of = [](const Program& program) {
    errno = 0;
    const auto none = spawn(program);
    const int why = errno;
    EXPECT_FALSE(none.ok());
    return why;
  };
  Program missing = child();
  missing.path = (folder_.path() / "missing").string();
  EXPECT_EQ(errno_of(missing), ENOENT);
  Program closed = child();
  closed.moved = {{1'000'000, 5}};
  EXPECT_EQ(errno_of(closed), EBADF);
}

TEST_F(SpawnTest, ByDescriptorItRunsWhatWasOpenedThoughTheFileWasReplacedOrDeleted) {
  const fs::path copy = folder_.path() / "program";
  fs::copy_file(PROCESS_CHILD, copy);
  for (const bool deleted : {false, true}) {
    Program program = child();
    program.path = copy.string();
    program.executable = Fd{::open(copy.c_str(), O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(program.executable);
    fs::remove(copy);
    if (!deleted) fs::copy_file("/bin/false", copy);
    const auto lines = run(std::move(program));
    EXPECT_EQ(those_of(lines, "argument"), std::vector<std::string>{"child"}) << deleted;
    EXPECT_EQ(descriptors_of(lines), (std::vector<int>{0, 1, 2})) << "the executable's own is closed";
    fs::remove(copy);
    fs::copy_file(PROCESS_CHILD, copy);
  }
}

TEST_F(SpawnTest, OwnEnvironmentIsThisProcesss) {
  ASSERT_EQ(::setenv("PHAROS_TEST_VARIABLE", "some value", 1), 0);
  const auto environment = own_environment();
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "PHAROS_TEST_VARIABLE=some value"), 1);
  ::unsetenv("PHAROS_TEST_VARIABLE");
}

}  // namespace
}  // namespace pharos::process
