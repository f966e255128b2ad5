#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <pharos/ml/report_log.hpp>

#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

class ReportLogTest : public testing::Test {
 protected:
  std::string text_of(const char* file) const {
    std::ifstream from{folder_.path() / file};
    return {std::istreambuf_iterator<char>{from}, {}};
  }
  void append(const char* file, const char* text) const { std::ofstream{folder_.path() / file, std::ios::app} << text; }
  void add(Result<ReportLog> log, std::uint64_t step, const std::vector<Metrics::Entry>& metrics) const {
    ASSERT_TRUE(log) << log.error().to_string();
    log->add({step}, 0.5, metrics);
    ASSERT_TRUE(log->write());
  }
  Result<ReportLog> go_on() const { return ReportLog::go_on(folder_.path(), {"step"}); }
  /// Makes a file that the system refuses to shorten, as a full file system that copies on write may do. The file lives
  /// as long as the descriptor.
  Fd make_unshrinkable(const char* file) const {
    Fd memory{::memfd_create(file, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(memory.get()), folder_.path() / file);
    return memory;
  }

  const TemporaryFolder folder_;
};

/// While this object exists, files that this process writes have at most so many bytes, as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : before_{::signal(SIGXFSZ, SIG_IGN)} {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit least{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &least);
  }
  FileLimit(FileLimit&&) = delete;
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_{};
  const sighandler_t before_;
};

TEST_F(ReportLogTest, GoesOnBehindWhatIsThere) {
  add(go_on(), 1, {{"loss", 3}, {"a,\"b\"", 4}});
  append("reports.csv", "2,0.");  // a killed process leaves such a line
  append("reports.jsonl", "{\"step\":2");
  add(go_on(), 2, {{"a,\"b\"", 5}, {"accuracy", 6}});
  EXPECT_EQ(text_of("reports.csv"),
            "step,seconds,loss,\"a,\"\"b\"\"\",accuracy\n"
            "1,0.5,3,4,\n"
            "2,0.5,,5,6\n");
  EXPECT_EQ(text_of("reports.jsonl"),
            "{\"step\":1,\"seconds\":0.5,\"loss\":3,\"a,\\\"b\\\"\":4}\n"
            "{\"step\":2,\"seconds\":0.5,\"a,\\\"b\\\"\":5,\"accuracy\":6}\n");
}

TEST_F(ReportLogTest, BeginsAnew) {
  add(go_on(), 1, {{"loss", 3}});
  add(ReportLog::make(folder_.path(), {"step"}), 7, {{"score", 1}});
  EXPECT_EQ(text_of("reports.csv"), "step,seconds,score\n7,0.5,1\n");
}

TEST_F(ReportLogTest, HasAHeadWithoutMetricsToo) {
  add(go_on(), 1, {});
  add(go_on(), 2, {{"loss", 3}});
  EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss\n1,0.5,\n2,0.5,3\n");
}

TEST_F(ReportLogTest, WhatADiskHasNoRoomForIsWrittenLater) {
  auto log = go_on();
  ASSERT_TRUE(log);
  log->add({1}, 0.5, {{"loss", 3}});
  ASSERT_TRUE(log->write());
  {
    const FileLimit limit{30};  // there is room for a part of the next lines
    log->add({2}, 0.5, {{"loss", 4}});
    EXPECT_FALSE(log->write());
    EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss\n1,0.5,3\n");
    log->add({3}, 0.5, {{"loss", 5}, {"accuracy", 6}});
    EXPECT_FALSE(log->write());
    EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss\n1,0.5,3\n") << "it is as it was until a wider one is there";
  }
  ASSERT_TRUE(log->write());
  EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss,accuracy\n1,0.5,3,\n2,0.5,4,\n3,0.5,5,6\n");
  EXPECT_EQ(text_of("reports.jsonl"),
            "{\"step\":1,\"seconds\":0.5,\"loss\":3}\n"
            "{\"step\":2,\"seconds\":0.5,\"loss\":4}\n"
            "{\"step\":3,\"seconds\":0.5,\"loss\":5,\"accuracy\":6}\n");
}

TEST_F(ReportLogTest, AHalfLineThatCannotBeRemovedIsOverwritten) {
  const Fd csv = make_unshrinkable("reports.csv");
  const Fd json = make_unshrinkable("reports.jsonl");
  append("reports.csv", "step,seconds,loss\n1,0.5,3\n");
  auto log = go_on();
  ASSERT_TRUE(log);
  const auto add_with_limit = [&](std::uint64_t step, rlim_t limit) {
    const FileLimit full{limit};
    log->add({step}, 0.5, {{"loss", 4}});
    EXPECT_FALSE(log->write());
  };
  add_with_limit(2, 30);
  EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss\n1,0.5,3\n2,0.") << "the test has made a half line";
  ASSERT_TRUE(log->write());
  EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss\n1,0.5,3\n2,0.5,4\n");

  add_with_limit(3, 50);  // the line for reports.csv fits
  ASSERT_TRUE(log->write());
  EXPECT_EQ(text_of("reports.jsonl"),
            "{\"step\":2,\"seconds\":0.5,\"loss\":4}\n"
            "{\"step\":3,\"seconds\":0.5,\"loss\":4}\n");

  add_with_limit(4, 45);  // the next line has a new column, so that the file is written anew
  log->add({5}, 0.5, {{"accuracy", 6}});
  ASSERT_TRUE(log->write());
  EXPECT_EQ(text_of("reports.csv"), "step,seconds,loss,accuracy\n1,0.5,3,\n2,0.5,4,\n3,0.5,4,\n4,0.5,4,\n5,0.5,,6\n");
}

TEST_F(ReportLogTest, KnowsTheLastLineThatWasThere) {
  EXPECT_FALSE(go_on()->last());
  add(go_on(), 7, {{"loss", 3}});
  append("reports.csv", "8,0.");
  EXPECT_EQ(go_on()->last(), 7U);
}

TEST_F(ReportLogTest, DoesNotWriteIntoAFileOfSomethingElse) {
  append("reports.csv", "trial,step,seconds\n1,1,0.5\n");
  const auto log = go_on();
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().to_string().find("is not a file of these reports: its header is trial,step,seconds"),
            std::string::npos);
  EXPECT_EQ(text_of("reports.csv"), "trial,step,seconds\n1,1,0.5\n");
}

}  // namespace
}  // namespace pharos::ml
