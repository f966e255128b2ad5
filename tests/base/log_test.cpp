#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/log.hpp>

namespace pharos {
namespace {

// The log of a process is set up only once. So each case writes in a child process, and reads its standard error.
std::string written_by(const char* level, const std::function<void()>& write) {
  int ends[2];
  PHAROS_CHECK(::pipe(ends) == 0);
  const Fd from{ends[0]};
  Fd to{ends[1]};
  const pid_t child = ::fork();
  PHAROS_CHECK(child >= 0);
  if (child == 0) {
    if (level == nullptr) {
      ::unsetenv("PHAROS_LOG");
    } else {
      ::setenv("PHAROS_LOG", level, 1);
    }
    ::dup2(to.get(), STDERR_FILENO);
    write();
    ::_exit(0);
  }
  to.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(from.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

/// Returns the line without its time and pid, which vary.
std::string event_of(const std::string& line) {
  const std::size_t end = line.find("] ");
  return end == std::string::npos ? line : line.substr(end + 2);
}

TEST(Log, WritesOneLineOfKeysAndValuesWithTimeLevelRoleAndProcess) {
  const std::string text = written_by(nullptr, [] {
    set_log_role("node");
    log(LogLevel::kWarn, "worker lost", {kv("worker", WorkerId{16}), kv("pid", 42)});
  });
  EXPECT_TRUE(testing::internal::RE::FullMatch(
      text, testing::internal::RE("[0-9]+-[0-9]+-[0-9]+T[0-9:.]+ warning node\\[[0-9]+\\] "
                                  "worker lost worker=0000000000000010 pid=42\n")))
      << text;
}

TEST(Log, QuotesValuesThatWouldBreakTheLineApart) {
  const std::string text = written_by(nullptr, [] {
    log(LogLevel::kError, "e", {kv("a", "plain"), kv("b", "two words"), kv("c", ""), kv("d", "x=y")});
    log(LogLevel::kError, "f", {kv("g", "say \"no\""), kv("h", "two\nlines"), kv("i", "{} {0}")});
  });
  const std::size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(event_of(text.substr(0, end)), R"(e a=plain b="two words" c="" d="x=y")");
  EXPECT_EQ(event_of(text.substr(end + 1)), "f g=\"say \\\"no\\\"\" h=\"two\\nlines\" i=\"{} {0}\"\n");
}

void one_of_each() {
  log(LogLevel::kDebug, "debug-event");
  log(LogLevel::kInfo, "info-event");
  log(LogLevel::kWarn, "warn-event");
  log(LogLevel::kError, "error-event");
}

TEST(Log, BelowTheThresholdNothingIsWritten) {
  struct Row {
    const char* level;
    int lines;
  };
  for (const Row row : {Row{nullptr, 2}, {"debug", 4}, {"info", 3}, {"warn", 2}, {"error", 1}, {"off", 0}}) {
    const std::string text = written_by(row.level, one_of_each);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), row.lines) << (row.level == nullptr ? "unset" : row.level);
    EXPECT_EQ(text.find("debug-event") != std::string::npos, row.lines == 4);
  }
}

}  // namespace
}  // namespace pharos
