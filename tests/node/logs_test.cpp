#include "logs/logs.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "temporary_folder.hpp"

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator{folder}) bytes += entry.file_size();
  return bytes;
}

/// Returns `count` lines with the numbers from `from` on.
std::string lines(int from, int count) {
  std::string text;
  for (int i = from; i < from + count; ++i) text += std::to_string(1'000'000 + i) + "\n";
  return text;
}

class LogFileTest : public testing::Test {
 protected:
  std::string everything(std::uint64_t from = 0) const {
    std::string text;
    for (;;) {
      const wire::LogPart part = file_.read(from, 1000);
      if (part.text.empty()) return text;
      text += part.text;
      from = part.from + part.text.size();
    }
  }

  TemporaryFolder folder_;
  LogFile file_{folder_.path() / "logs" / "a.log"};
};

TEST_F(LogFileTest, WhatWasWrittenIsReadFromAnyByteOn) {
  EXPECT_EQ(file_.read(0, 100).size, 0U);
  file_.append("first\n", 1000);
  file_.append("second\n", 1000);
  EXPECT_EQ(everything(), "first\nsecond\n");
  EXPECT_EQ(everything(6), "second\n");
  const wire::LogPart behind = file_.read(99, 100);
  EXPECT_EQ(behind.from, 13U);
  EXPECT_EQ(behind.size, 13U);
  EXPECT_EQ(behind.text, "");
}

TEST_F(LogFileTest, TheNewestIsKeptAndAtLeastHalfOfTheMost) {
  constexpr std::uint64_t kMost = 4096;
  std::string all;
  for (int i = 0; i < 500; ++i) {
    const std::string text = lines(i * 7, 7);
    all += text;
    file_.append(text, kMost);
    ASSERT_LE(file_.kept(), kMost);
    ASSERT_EQ(bytes_in(folder_.path() / "logs"), file_.kept());
    const std::string kept = everything();
    ASSERT_EQ(kept.size(), file_.kept());
    ASSERT_TRUE(all.ends_with(kept)) << "after " << i;
    ASSERT_GE(kept.size(), std::min<std::size_t>(all.size(), kMost / 2));
  }
  EXPECT_EQ(file_.read(0, 10).from, all.size() - file_.kept());
  EXPECT_EQ(file_.read(0, 10).size, all.size());
  EXPECT_EQ(file_.read(0, kMost).text.size(), file_.kept()) << "one part spans both files";
}

TEST_F(LogFileTest, ATextThatIsLargerThanAllLeavesItsEnd) {
  const std::string text = lines(0, 10'000);
  file_.append(text, 4096);
  EXPECT_LE(file_.kept(), 4096U);
  EXPECT_TRUE(text.ends_with(everything()));
}

TEST_F(LogFileTest, WhatADiskHasNoRoomForIsMissingAndItSaysHowMuch) {
  const fs::path disk = folder_.path() / "logs";
  fs::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "mounting a tmpfs needs root";
  const std::string text(40 << 10, 'a');
  file_.append(text, 1 << 20);
  file_.append(text, 1 << 20);
  const std::uint64_t fits = file_.kept();
  EXPECT_LT(fits, 2 * text.size());
  EXPECT_EQ(::mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
  file_.append("after\n", 1 << 20);
  EXPECT_TRUE(everything().ends_with("*** " + std::to_string(2 * text.size() - fits) +
                                     " bytes are missing: they could not be written to the log file\nafter\n"));
  file_.remove();
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(LogFileTest, TheLineThatSaysHowMuchIsMissingIsNotMissingItself) {
  const fs::path disk = folder_.path() / "logs";
  std::ofstream{disk} << "no folder, so that no log can be written here";
  file_.append("12345678", 4096);
  file_.append("12", 4096);
  fs::remove(disk);
  file_.append("after\n", 4096);
  EXPECT_EQ(everything(), "*** 10 bytes are missing: they could not be written to the log file\nafter\n");
}

class LogsTest : public testing::Test {
 protected:
  /// Runs the disk work that waits, and its callbacks.
  void settle() {
    while (!aside_.empty()) {
      auto [work, done] = std::move(aside_.front());
      aside_.pop_front();
      work();
      done();
    }
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const auto& row : logs_.list().rows) all.push_back(row[0]);
    std::sort(all.begin(), all.end());
    return all;
  }
  Result<wire::LogPart> read(WorkerId worker) {
    Result<wire::LogPart> read = Error{ErrorCode::kInternal, "no answer"};
    logs_.read({.node = {}, .log = to_string(worker), .from = 0, .most = 5000},
               [&](Result<wire::LogPart> part) { read = std::move(part); });
    settle();
    return read;
  }

  TemporaryFolder folder_;
  std::deque<std::pair<async::UniqueFunction<void()>, async::UniqueFunction<void()>>> aside_;
  Logs logs_{[this](auto work, auto done) { aside_.emplace_back(std::move(work), std::move(done)); },
             {.folder = folder_.path() / "logs", .own = {}, .worker_max = 4000, .total_max = 10'000},
             NodeId{9},
             "node"};
};

TEST_F(LogsTest, ALogOutlivesItsWorkerAndSaysHowThatEnded) {
  logs_.begin({WorkerId{1}, ActorId{2}, 3, "trainer"});
  logs_.note_process(WorkerId{1}, 77);
  logs_.write(WorkerId{1}, "one\n");
  logs_.write(WorkerId{1}, "two\n");
  settle();
  EXPECT_FALSE(read(WorkerId{1})->ended);
  logs_.write(WorkerId{1}, "three\n");
  logs_.end(WorkerId{1}, "killed");
  EXPECT_EQ(read(WorkerId{1})->text, "one\ntwo\nthree\n");
  EXPECT_TRUE(read(WorkerId{1})->ended);
  const std::vector<std::string> row{to_string(WorkerId{1}), "trainer", to_string(ActorId{2}), "3",
                                     to_string(NodeId{9}),   "77",      "ended: killed",       "14"};
  EXPECT_EQ(logs_.list().rows, (std::vector<std::vector<std::string>>{row}));
  EXPECT_EQ(read(WorkerId{5}).error().code(), ErrorCode::kNotFound);
}

TEST_F(LogsTest, TheOldestOfThoseThatHaveEndedMakeRoom) {
  for (std::uint64_t worker = 1; worker <= 9; ++worker) {
    logs_.begin({WorkerId{worker}, {}, 0, "task worker"});
    for (int i = 0; i < 10; ++i) logs_.write(WorkerId{worker}, lines(0, 100));
    settle();
    if (worker != 2) logs_.end(WorkerId{worker}, "done");
    settle();
    ASSERT_LE(bytes_in(folder_.path() / "logs"), 10'000U);
  }
  EXPECT_EQ(ids().front(), to_string(WorkerId{2})) << "it lives";
  EXPECT_EQ(ids().back(), to_string(WorkerId{9}));
  EXPECT_LT(ids().size(), 6U);
}

TEST_F(LogsTest, ThoseThatLiveShareTheRoom) {
  for (std::uint64_t worker = 1; worker <= 20; ++worker) {
    logs_.begin({WorkerId{worker}, {}, 0, "task worker"});
    for (int i = 0; i < 10; ++i) logs_.write(WorkerId{worker}, lines(0, 100));
    settle();
    ASSERT_LE(bytes_in(folder_.path() / "logs"), 10'000U) << "with " << worker;
  }
  EXPECT_EQ(ids().size(), 20U);
}

TEST_F(LogsTest, ADiskThatStandsStillHoldsNobodyUp) {
  logs_.begin({WorkerId{1}, {}, 0, "task worker"});
  const std::string text = std::string(1 << 20, 'a') + "\n";
  for (int i = 0; i < 20; ++i) logs_.write(WorkerId{1}, text);
  EXPECT_EQ(aside_.size(), 1U);
  logs_.write(WorkerId{1}, "last\n");
  settle();
  const auto part = read(WorkerId{1});
  EXPECT_LT(part->size, 6U << 20);
  EXPECT_TRUE(part->text.ends_with("aaa\nlast\n"));
}

TEST_F(LogsTest, AllOutputThatASlowDiskDoesNotTakeIsCounted) {
  Logs logs{[this](auto work, auto done) { aside_.emplace_back(std::move(work), std::move(done)); },
            {.folder = folder_.path() / "logs", .own = {}, .worker_max = 100 << 20, .total_max = 100 << 20},
            NodeId{9},
            "node"};
  logs.begin({WorkerId{1}, {}, 0, "task worker"});
  logs.write(WorkerId{1}, "first\n");
  constexpr std::uint64_t kCount = 20;
  const std::string text(1 << 20, 'a');
  for (std::uint64_t i = 0; i < kCount; ++i) logs.write(WorkerId{1}, text);
  settle();
  std::ifstream file{folder_.path() / "logs" / (to_string(WorkerId{1}) + ".log")};
  const std::string all{std::istreambuf_iterator<char>{file}, {}};
  const auto kept = static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 'a')) / text.size();
  ASSERT_LT(kept, kCount);
  const std::string right = "first\n*** " + std::to_string((kCount - kept) * text.size()) + " bytes are missing: ";
  EXPECT_EQ(all.substr(0, right.size()), right);
}

}  // namespace
}  // namespace pharos::node
