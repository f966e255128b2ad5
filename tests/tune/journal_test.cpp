#include "run/journal.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include <pharos/wire/stored_codec.hpp>

#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

/// The calls of fdatasync() in this process.
struct Syncs {
  std::mutex mutex;
  std::condition_variable changed;
  int ended = 0;
  bool next_fails = false;

  int sync(int file) {
    const int result = static_cast<int>(::syscall(SYS_fdatasync, file));
    const std::lock_guard lock{mutex};
    ++ended;
    changed.notify_all();
    if (!std::exchange(next_fails, false)) return result;
    errno = EIO;
    return -1;
  }
  int so_far() {
    const std::lock_guard lock{mutex};
    return ended;
  }
  void let_next_fail() {
    const std::lock_guard lock{mutex};
    next_fails = true;
  }
  /// Returns false if that number of calls has not been reached after 20 s.
  bool wait_for(int number) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, std::chrono::seconds{20}, [&] { return ended >= number; });
  }
};

Syncs& syncs() {
  static Syncs all;
  return all;
}

}  // namespace
}  // namespace pharos::ml

// Replaces libc's function.
extern "C" int fdatasync(int file) {
  return pharos::ml::syncs().sync(file);
}

namespace pharos::ml {
namespace {

struct JournalTest : testing::Test {
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "journal";

  static JournalHead head() {
    JournalHead head{.metric = "loss", .goal = Goal::kMaximise, .trials = 7};
    head.command = {"program", "--argument"};
    return head;
  }
  static std::vector<SweepEvent> events() {
    return {TrialBegan{0, {{"x", 0.5}, {"kind", "a"}}, 0.1},
            TrialReported{0, 1, {{"loss", 2.5}}, 0.2},
            TrialAsked{0, "depth", std::int64_t{3}},
            TrialSaved{0, 1},
            TrialFailed{0, "its worker died", true, 0.3},
            TrialResumed{0, TrialResumed::From::kInterruption},
            TrialReturned{0, Metrics{1.5}, 0.4},
            TrialCut{0, 0.5}};
  }
  void write_all() const {
    auto journal = Journal::create(file, head(), true);
    ASSERT_TRUE(journal) << journal.error().to_string();
    for (const SweepEvent& event : events()) {
      (*journal)->append(event);
      ASSERT_TRUE((*journal)->write());
    }
    ASSERT_TRUE((*journal)->sync());
  }
  std::string bytes() const {
    std::ifstream from{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{from}, {}};
  }
  void set_bytes(const std::string& bytes) const {
    std::ofstream to{file, std::ios::binary | std::ios::trunc};
    to << bytes;
  }
  Result<Journal::Contents> read(std::vector<SweepEvent>& events) const {
    return Journal::read(file, [&](const SweepEvent& event) -> Result<void> {
      events.push_back(event);
      return {};
    });
  }
};

bool same(const SweepEvent& a, const SweepEvent& b) {
  return to_bytes(a).value() == to_bytes(b).value();
}

TEST_F(JournalTest, WhatWasWrittenIsReadAgain) {
  write_all();
  std::vector<SweepEvent> read_events;
  const auto contents = read(read_events);
  ASSERT_TRUE(contents) << contents.error().to_string();
  EXPECT_EQ(contents->head.metric, "loss");
  EXPECT_EQ(contents->head.goal, Goal::kMaximise);
  EXPECT_EQ(contents->head.trials, 7U);
  EXPECT_EQ(contents->head.command, head().command);
  EXPECT_FALSE(contents->was_cut);
  ASSERT_EQ(read_events.size(), events().size());
  for (std::size_t i = 0; i < read_events.size(); ++i) EXPECT_TRUE(same(read_events[i], events()[i])) << i;
}

TEST_F(JournalTest, CutAnywhereItHasWhatCameBeforeAndCanBeGoneOnWith) {
  write_all();
  const std::string whole = bytes();
  std::size_t most = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    set_bytes(whole.substr(0, size));
    std::vector<SweepEvent> some;
    const auto contents = read(some);
    if (!contents) {  // not even the head of the journal is there
      EXPECT_EQ(contents.error().code(), ErrorCode::kCorrupt) << size;
      EXPECT_TRUE(some.empty());
      EXPECT_EQ(most, 0U) << size;
      continue;
    }
    EXPECT_GE(some.size(), most);
    most = some.size();
    EXPECT_EQ(contents->was_cut, contents->bytes != size) << size;
    auto journal = Journal::open(file, false);
    ASSERT_TRUE(journal);
    ASSERT_TRUE((*journal)->go_on_at(contents->bytes));
    (*journal)->append(TrialSaved{0, 99});
    ASSERT_TRUE((*journal)->write());
    std::vector<SweepEvent> more;
    ASSERT_TRUE(read(more)) << size;
    ASSERT_EQ(more.size(), some.size() + 1);
    EXPECT_TRUE(same(more.back(), TrialSaved{0, 99}));
  }
  EXPECT_EQ(most, events().size() - 1);
}

TEST_F(JournalTest, AByteThatWasChangedIsFoundAndNothingBehindItIsCutOff) {
  write_all();
  const std::string whole = bytes();
  for (std::size_t place = 0; place < whole.size(); ++place) {
    std::string changed = whole;
    changed[place] = static_cast<char>(changed[place] ^ 0x40);
    set_bytes(changed);
    std::vector<SweepEvent> some;
    const auto contents = read(some);
    for (std::size_t i = 0; i < some.size(); ++i) EXPECT_TRUE(same(some[i], events()[i])) << place;
    if (contents) {
      // The damage may be in the last event, which then looks as if it had not been written to its end.
      EXPECT_EQ(some.size(), events().size() - 1) << place;
    } else {
      const ErrorCode code = contents.error().code();
      EXPECT_TRUE(code == ErrorCode::kCorrupt || code == ErrorCode::kUnsupported) << contents.error().to_string();
    }
    EXPECT_EQ(bytes(), changed) << "reading changes nothing";
  }
}

TEST_F(JournalTest, ZerosBehindItAreWhatAMachineLeftThatEnded) {
  write_all();
  set_bytes(bytes() + std::string(4096, '\0'));
  std::vector<SweepEvent> all;
  const auto contents = read(all);
  ASSERT_TRUE(contents);
  EXPECT_TRUE(contents->was_cut);
  EXPECT_EQ(all.size(), events().size());
}

TEST_F(JournalTest, AnotherVersionIsRefusedWithBothNamed) {
  write_all();
  std::string other = bytes();
  other[8] = 9;
  set_bytes(other);
  std::vector<SweepEvent> none;
  const auto contents = read(none);
  ASSERT_FALSE(contents);
  EXPECT_EQ(contents.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(contents.error().message().find("version 9"), std::string::npos);
  EXPECT_NE(contents.error().message().find("version 1"), std::string::npos);
}

TEST_F(JournalTest, AnyBytesAreNoJournalOrOne) {
  std::mt19937_64 random{seed_of_test()};
  for (int round = 0; round < 200; ++round) {
    std::string some(random() % 300, '\0');
    for (char& each : some) each = static_cast<char>(random());
    set_bytes(some);
    std::vector<SweepEvent> none;
    EXPECT_FALSE(read(none));
  }
}

TEST_F(JournalTest, TwoTunersDoNotWriteInOneFolder) {
  const auto first = Journal::create(file, head(), false);
  ASSERT_TRUE(first);
  const auto second = Journal::open(file, false);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("another tuner"), std::string::npos);
  EXPECT_EQ(Journal::create(file, head(), false).error().code(), ErrorCode::kAlreadyExists);
}

TEST_F(JournalTest, ASecondNameThatAKilledTunerHasLeftIsNotWrittenTo) {
  write_all();
  const std::string before = bytes();
  std::filesystem::create_hard_link(file, file.string() + ".begun");
  EXPECT_EQ(Journal::create(file, head(), true).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(bytes(), before);
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".begun"));
}

TEST_F(JournalTest, ASyncThatHasFailedInTheBackgroundIsTheErrorOfEachLaterWriteAndSync) {
  const int before = syncs().so_far();
  auto journal = Journal::create(file, head(), true);
  ASSERT_TRUE(journal);
  ASSERT_TRUE(syncs().wait_for(before + 2)) << "the one of create(), and the one of the journal's thread";
  syncs().let_next_fail();
  (*journal)->append(TrialSaved{0, 1});
  ASSERT_TRUE((*journal)->write());
  ASSERT_TRUE(syncs().wait_for(before + 3));
  for (int i = 0; i < 2; ++i) {
    const auto synced = (*journal)->sync();
    ASSERT_FALSE(synced) << i;
    EXPECT_NE(synced.error().message().find("Input/output error"), std::string::npos) << synced.error().to_string();
  }
  EXPECT_FALSE((*journal)->write());
}

TEST_F(JournalTest, AFullDiskIsSaidAndWhatWasThereStaysReadable) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a small disk wants root";
  const auto small = folder.path() / "small";
  std::filesystem::create_directory(small);
  ASSERT_EQ(::mount("none", small.c_str(), "tmpfs", 0, "size=64k"), 0);
  {
    auto journal = Journal::create(small / "journal", head(), true);
    ASSERT_TRUE(journal);
    std::size_t written = 0;
    Result<void> result;
    while (result && written < 10'000) {
      for (int i = 0; i < 20; ++i) (*journal)->append(TrialSaved{written, 1});
      result = (*journal)->write();
      if (result) written += 20;
    }
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::kExhausted) << result.error().to_string();
    EXPECT_NE(result.error().remedy().find("restore()"), std::string::npos);
    EXPECT_FALSE((*journal)->write()) << "nothing is written behind a gap";
    std::size_t read = 0;
    const auto contents = Journal::read(small / "journal", [&](const SweepEvent&) -> Result<void> {
      ++read;
      return {};
    });
    EXPECT_TRUE(contents);
    EXPECT_EQ(read, written);
  }
  ::umount(small.c_str());
}

}  // namespace
}  // namespace pharos::ml
