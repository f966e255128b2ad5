// What a sweep keeps in its folder, without a sweep: the test makes the events and the checkpoints.

#include "run/sweep_folder.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

using Existing = SweepFolder::Existing;

/// While it lives, this process can write nothing behind the first byte of a file.
class FullFiles {
 public:
  FullFiles() : handler_{::signal(SIGXFSZ, SIG_IGN)} {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit full = before_;
    full.rlim_cur = 1;
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  FullFiles(FullFiles&&) = delete;
  ~FullFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

/// While it lives, this process works in another folder.
class InFolder {
 public:
  explicit InFolder(const std::filesystem::path& folder) { std::filesystem::current_path(folder); }
  InFolder(InFolder&&) = delete;
  ~InFolder() { std::filesystem::current_path(before_); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
};

class SweepFolderTest : public testing::Test {
 protected:
  Result<void> open(SweepFolder& sweep, Existing existing = Existing::kRefused,
                    const SweepFolder::Keeps& keeps = {.durable = false}) const {
    return sweep.open(at, {.metric = "loss"}, existing, keeps, space);
  }
  static Result<void> take_none(const SweepEvent&) {
    ADD_FAILURE() << "there is no event to take";
    return {};
  }
  /// Calls all functions that could leave something behind.
  static void use(SweepFolder& sweep) {
    EXPECT_TRUE(sweep.replay(&take_none));
    EXPECT_TRUE(sweep.open_checkpoints({{0, 1}}));
    sweep.note(TrialReported{.trial = 0, .step = 1, .metrics = 2.0}, {});
    sweep.log(TrialReported{.trial = 0, .step = 2, .metrics = 2.0}, {});
    sweep.write_checkpoint(0, 1, Bytes{std::string{"saved"}});
    sweep.finish_checkpoints();
    sweep.forget_before(0, 1);
    sweep.forget(0);
    EXPECT_TRUE(sweep.written_checkpoints().empty());
    EXPECT_TRUE(sweep.write());
    EXPECT_TRUE(sweep.sync());
    EXPECT_TRUE(sweep.path().empty());
  }
  std::string text_of(const std::string& file) const {
    std::ifstream from{at / file, std::ios::binary};
    return {std::istreambuf_iterator<char>{from}, {}};
  }
  /// Returns the size of the files for TensorBoard together.
  std::uintmax_t size_of_tensorboard() const {
    std::uintmax_t size = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator{at / "tensorboard"}) {
      if (each.is_regular_file()) size += each.file_size();
    }
    return size;
  }
  /// Returns the steps of the TrialSaved in the journal.
  std::vector<std::uint64_t> saved_in_journal() const {
    std::vector<std::uint64_t> steps;
    const auto contents = Journal::read(at / "journal", [&](const SweepEvent& event) -> Result<void> {
      if (const auto* const saved = std::get_if<TrialSaved>(&event)) steps.push_back(saved->step);
      return {};
    });
    EXPECT_TRUE(contents) << contents.error().to_string();
    return steps;
  }
  /// Makes a sweep in the folder whose journal has these TrialSaved.
  void begin_sweep(const std::vector<std::uint64_t>& steps) const {
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep));
    for (const std::uint64_t step : steps) sweep.note(TrialSaved{0, step}, {});
    ASSERT_TRUE(sweep.write());
  }
  static Bytes checkpoint(const std::string& text) { return Bytes{text}; }

  const TemporaryFolder folder;
  const std::filesystem::path at = folder.path() / "sweeps" / "first";
  const Space space{{"x", uniform(0, 1)}};
};

// ---- Opening

TEST_F(SweepFolderTest, DoesNothingBeforeItIsOpened) {
  const InFolder there{folder.path()};
  SweepFolder sweep;
  use(sweep);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(SweepFolderTest, KeepsNothingWithAnEmptyPath) {
  const InFolder there{folder.path()};
  SweepFolder sweep;
  ASSERT_TRUE(
      sweep.open({}, {.metric = "loss"}, Existing::kRefused, {.log_reports = true, .tensorboard = true}, space));
  use(sweep);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(SweepFolderTest, IsMadeWithTheFoldersAboveIt) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep));
  EXPECT_EQ(sweep.path(), at);
  const auto contents = Journal::read(at / "journal", &take_none);
  ASSERT_TRUE(contents);
  EXPECT_EQ(contents->head.metric, "loss");
  EXPECT_FALSE(std::filesystem::exists(at / "reports.csv"));
  EXPECT_FALSE(std::filesystem::exists(at / "tensorboard"));
}

TEST_F(SweepFolderTest, LetsOneTunerWorkAndLeavesItsLogsAlone) {
  const SweepFolder::Keeps logs{.log_reports = true, .tensorboard = true, .durable = false};
  {
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep, Existing::kRefused, logs));
    sweep.note(TrialReported{.trial = 0, .step = 1, .metrics = 2.0}, {});
    ASSERT_TRUE(sweep.write());
    const std::string reports = text_of("reports.csv");
    const std::uintmax_t size = size_of_tensorboard();
    SweepFolder other;
    const auto opened = open(other, Existing::kContinued, logs);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), ErrorCode::kFailedPrecondition) << opened.error().to_string();
    EXPECT_EQ(text_of("reports.csv"), reports);
    EXPECT_EQ(size_of_tensorboard(), size);
  }
  SweepFolder later;
  EXPECT_TRUE(open(later, Existing::kContinued, logs));
}

TEST_F(SweepFolderTest, RefusesASweepThatIsNotToBeContinued) {
  begin_sweep({1, 2});
  SweepFolder sweep;
  const auto opened = open(sweep);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ErrorCode::kAlreadyExists) << opened.error().to_string();
  EXPECT_EQ(saved_in_journal(), (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(SweepFolderTest, SaysWhyItCannotBeMade) {
  std::ofstream{folder.path() / "sweeps"} << "a file, not a folder";
  SweepFolder sweep;
  const auto opened = open(sweep);
  ASSERT_FALSE(opened);
  EXPECT_SAYS(opened.error().message(), at.string() + ": Not a directory");
}

TEST_F(SweepFolderTest, SaysWhyTheLogsCannotBeMadeAndIsThenAsBefore) {
  std::filesystem::create_directories(at / "reports.csv");
  {
    SweepFolder sweep;
    const auto opened = open(sweep, Existing::kRefused, {.log_reports = true, .durable = false});
    ASSERT_FALSE(opened);
    EXPECT_SAYS(opened.error().message(), "Is a directory");
  }
  begin_sweep({1});
  SweepFolder sweep;
  EXPECT_FALSE(open(sweep, Existing::kContinued, {.log_reports = true, .durable = false}));
  EXPECT_EQ(saved_in_journal(), std::vector<std::uint64_t>{1}) << "the sweep that was there stays";
}

TEST_F(SweepFolderTest, OverwritesTheLogsOfAnEarlierTuner) {
  const SweepFolder::Keeps logs{.log_reports = true, .tensorboard = true, .durable = false};
  std::uintmax_t size = 0;
  {
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep, Existing::kRefused, logs));
    ASSERT_TRUE(sweep.write());
    size = size_of_tensorboard();
    sweep.note(TrialReported{.trial = 0, .step = 1, .metrics = 2.0}, {});
    ASSERT_TRUE(sweep.write());
    EXPECT_SAYS(text_of("reports.csv"), "loss");
    EXPECT_GT(size_of_tensorboard(), size);
  }
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kContinued, logs));
  ASSERT_TRUE(sweep.write());
  EXPECT_EQ(text_of("reports.csv").find("loss"), std::string::npos) << text_of("reports.csv");
  EXPECT_EQ(size_of_tensorboard(), size);
}

// ---- Replaying

TEST_F(SweepFolderTest, HasNothingToReplayForANewSweep) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kContinued));
  EXPECT_TRUE(sweep.replay(&take_none));
}

TEST_F(SweepFolderTest, ReplaysTheEventsOfAnEarlierTunerAndGoesOnBehindThem) {
  begin_sweep({1, 2});
  std::ofstream{at / "journal", std::ios::app} << "half";  // a killed tuner has left a part of an event
  {
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep, Existing::kContinued, {.log_reports = true, .durable = false}));
    std::vector<std::uint64_t> steps;
    ASSERT_TRUE(sweep.replay([&](const SweepEvent& event) -> Result<void> {
      steps.push_back(std::get<TrialSaved>(event).step);
      sweep.log(event, {});
      return {};
    }));
    EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 2}));
    sweep.note(TrialSaved{0, 3}, {});
    ASSERT_TRUE(sweep.write());
  }
  EXPECT_EQ(saved_in_journal(), (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(SweepFolderTest, EndsTheReplayWithTheFirstErrorOfTheOneThatTakesTheEvents) {
  begin_sweep({1, 2, 3});
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kContinued));
  int taken = 0;
  const auto replayed = sweep.replay([&](const SweepEvent&) -> Result<void> {
    if (++taken == 2) return Error{ErrorCode::kInvalidArgument, "no such trial"};
    return {};
  });
  ASSERT_FALSE(replayed);
  EXPECT_EQ(replayed.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_SAYS(replayed.error().message(), "no such trial");
  EXPECT_EQ(taken, 2);
}

TEST_F(SweepFolderTest, CannotReplayADamagedJournal) {
  std::filesystem::create_directories(at);
  std::ofstream{at / "journal"} << "This is a file that is no journal of a sweep.";
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kContinued));
  const auto replayed = sweep.replay(&take_none);
  ASSERT_FALSE(replayed);
  EXPECT_EQ(replayed.error().code(), ErrorCode::kCorrupt);
}

// ---- Events

TEST_F(SweepFolderTest, NotesEventsInTheJournalAndTheLogsAndLogsOthersInTheLogsOnly) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kRefused, {.log_reports = true, .tensorboard = true, .durable = false}));
  ASSERT_TRUE(sweep.write());
  const std::uintmax_t empty = size_of_tensorboard();
  const TrialResult trial{.number = 7, .step = 5};
  sweep.note(TrialSaved{7, 4}, trial);
  sweep.note(TrialReported{.trial = 7, .step = 5, .metrics = 2.5, .seconds = 0.5}, trial);
  EXPECT_TRUE(saved_in_journal().empty()) << "nothing is written before write()";
  ASSERT_TRUE(sweep.write());
  const std::uintmax_t noted = size_of_tensorboard();
  EXPECT_GT(noted, empty);
  sweep.log(TrialSaved{7, 9}, trial);
  sweep.log(TrialReturned{.trial = 7, .metrics = {{"loss", 1.5}}, .seconds = 0.75}, trial);
  ASSERT_TRUE(sweep.write());
  EXPECT_EQ(saved_in_journal(), std::vector<std::uint64_t>{4});
  EXPECT_EQ(text_of("reports.csv"), "trial,step,seconds,loss\n7,5,0.5,2.5\n7,5,0.75,1.5\n");
  EXPECT_GT(size_of_tensorboard(), noted);
}

TEST_F(SweepFolderTest, TriesTheLogsAgainAtTheNextWrite) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kRefused, {.log_reports = true, .durable = false}));
  sweep.log(TrialReported{.trial = 0, .step = 1, .metrics = 2.5, .seconds = 0.5}, {});
  const auto written = [&] {
    const FullFiles full;
    return sweep.write();
  }();
  ASSERT_FALSE(written);
  EXPECT_SAYS(written.error().message(), "File too large");
  sweep.note(TrialSaved{0, 1}, {});
  const auto again = sweep.write();
  EXPECT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(text_of("reports.csv"), "trial,step,seconds,loss\n0,1,0.5,2.5\n");
  EXPECT_EQ(saved_in_journal(), std::vector<std::uint64_t>{1});
}

TEST_F(SweepFolderTest, ReturnsTheErrorOfTheJournalFirstAndFromThenOn) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kRefused, {.log_reports = true, .durable = false}));
  sweep.note(TrialReported{.trial = 0, .step = 1, .metrics = 2.5, .seconds = 0.5}, {});
  const auto written = [&] {
    const FullFiles full;
    return sweep.write();
  }();
  ASSERT_FALSE(written);
  EXPECT_SAYS(written.error().message(), "writing the sweep's journal");
  for (const auto& later : {sweep.write(), sweep.sync()}) {
    ASSERT_FALSE(later) << "there is room again, but the journal has lost an event";
    EXPECT_EQ(later.error().message(), written.error().message());
  }
}

TEST_F(SweepFolderTest, SyncsWhatHasBeenNoted) {
  for (const bool durable : {false, true}) {
    std::filesystem::remove_all(at);
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep, Existing::kRefused, {.log_reports = true, .durable = durable}));
    sweep.note(TrialReported{.trial = 0, .step = 1, .metrics = 2.5}, {});
    sweep.note(TrialSaved{0, 1}, {});
    ASSERT_TRUE(sweep.sync());
    EXPECT_EQ(saved_in_journal(), std::vector<std::uint64_t>{1});
    EXPECT_EQ(text_of("reports.csv").find("2.5"), std::string::npos) << "sync() writes no logs";
  }
}

TEST_F(SweepFolderTest, WritesTheJournalAndTheCheckpointsAtItsEndAndDropsTheLogs) {
  {
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep, Existing::kRefused, {.log_reports = true, .durable = false}));
    ASSERT_TRUE(sweep.open_checkpoints({}));
    sweep.note(TrialSaved{0, 1}, {});
    sweep.note(TrialReported{.trial = 0, .step = 2, .metrics = 2.5}, {});
    for (std::uint64_t trial = 0; trial < 20; ++trial) sweep.write_checkpoint(trial, 1, checkpoint("saved"));
  }
  EXPECT_EQ(saved_in_journal(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(text_of("reports.csv").find("2.5"), std::string::npos);
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    EXPECT_TRUE(CheckpointFiles::read(at / "checkpoints", trial, 1)) << trial;
  }
}

TEST_F(SweepFolderTest, IgnoresErrorsAtItsEnd) {
  std::optional<SweepFolder> sweep{std::in_place};
  ASSERT_TRUE(open(*sweep));
  ASSERT_TRUE(sweep->open_checkpoints({}));
  sweep->note(TrialSaved{0, 1}, {});
  sweep->write_checkpoint(0, 1, checkpoint("saved"));
  {
    const FullFiles full;
    sweep.reset();
  }
  EXPECT_TRUE(saved_in_journal().empty());
}

// ---- Checkpoints

TEST_F(SweepFolderTest, ReadsACheckpointThatWasWritten) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep));
  ASSERT_TRUE(sweep.open_checkpoints({}));
  sweep.write_checkpoint(3, 7, checkpoint("what the trial has saved"));
  sweep.finish_checkpoints();
  const auto read = sweep.read_checkpoint(3, 7);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(*read, checkpoint("what the trial has saved"));
  EXPECT_EQ(sweep.read_checkpoint(3, 8).error().code(), ErrorCode::kNotFound);
  std::ofstream{at / "checkpoints" / "3-7", std::ios::app} << "more";
  EXPECT_EQ(sweep.read_checkpoint(3, 7).error().code(), ErrorCode::kCorrupt);
}

TEST_F(SweepFolderTest, KeepsTheCheckpointsThatAreNamedAndRemovesTheOthers) {
  {
    SweepFolder sweep;
    ASSERT_TRUE(open(sweep));
    ASSERT_TRUE(sweep.open_checkpoints({}));
    for (const std::uint64_t step : {1U, 2U}) {
      sweep.write_checkpoint(0, step, checkpoint("of trial 0"));
      sweep.write_checkpoint(1, step, checkpoint("of trial 1"));
      sweep.finish_checkpoints();
    }
  }
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep, Existing::kContinued));
  ASSERT_TRUE(sweep.open_checkpoints({{0, 1}}));
  EXPECT_TRUE(sweep.read_checkpoint(0, 1));
  EXPECT_FALSE(sweep.read_checkpoint(0, 2));
  EXPECT_FALSE(sweep.read_checkpoint(1, 1));
  EXPECT_FALSE(sweep.read_checkpoint(1, 2));
}

TEST_F(SweepFolderTest, NamesTheCheckpointsThatWereWrittenOnceAndThoseThatWereNotWithTheirErrors) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep));
  ASSERT_TRUE(sweep.open_checkpoints({}));
  sweep.write_checkpoint(3, 7, checkpoint("saved"));
  sweep.finish_checkpoints();
  const auto written = sweep.written_checkpoints();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].trial, 3U);
  EXPECT_EQ(written[0].step, 7U);
  EXPECT_FALSE(written[0].error);
  EXPECT_TRUE(sweep.written_checkpoints().empty());
  std::filesystem::remove_all(at / "checkpoints");
  sweep.write_checkpoint(3, 8, checkpoint("saved"));
  sweep.finish_checkpoints();
  const auto failed = sweep.written_checkpoints();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].step, 8U);
  ASSERT_TRUE(failed[0].error);
  EXPECT_EQ(failed[0].error->code(), ErrorCode::kNotFound);
}

TEST_F(SweepFolderTest, MayWriteOnlyTheNewestOfManyCheckpointsOfATrial) {
  constexpr std::uint64_t kLast = 50;
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep));
  ASSERT_TRUE(sweep.open_checkpoints({}));
  for (std::uint64_t step = 1; step <= kLast; ++step) sweep.write_checkpoint(0, step, checkpoint("saved"));
  sweep.finish_checkpoints();
  const auto written = sweep.written_checkpoints();
  ASSERT_FALSE(written.empty());
  EXPECT_EQ(written.back().step, kLast);
  EXPECT_TRUE(std::is_sorted(written.begin(), written.end(),
                             [](const auto& one, const auto& other) { return one.step < other.step; }));
  for (const auto& each : written) EXPECT_TRUE(sweep.read_checkpoint(0, each.step)) << each.step;
}

TEST_F(SweepFolderTest, ForgetsTheCheckpointsBeforeAStepOrAllOfATrial) {
  SweepFolder sweep;
  ASSERT_TRUE(open(sweep));
  ASSERT_TRUE(sweep.open_checkpoints({}));
  for (std::uint64_t step = 1; step <= 3; ++step) {
    sweep.write_checkpoint(0, step, checkpoint("of trial 0"));
    sweep.write_checkpoint(1, step, checkpoint("of trial 1"));
    sweep.finish_checkpoints();
  }
  sweep.forget_before(0, 3);
  sweep.finish_checkpoints();
  EXPECT_FALSE(sweep.read_checkpoint(0, 1));
  EXPECT_FALSE(sweep.read_checkpoint(0, 2));
  EXPECT_TRUE(sweep.read_checkpoint(0, 3));
  EXPECT_TRUE(sweep.read_checkpoint(1, 1)) << "it is another trial's";
  sweep.forget(0);
  sweep.finish_checkpoints();
  EXPECT_FALSE(sweep.read_checkpoint(0, 3));
  EXPECT_TRUE(sweep.read_checkpoint(1, 3));
}

}  // namespace
}  // namespace pharos::ml
