#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/optuna_study.hpp>

#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

using State = TrialResult::State;

const std::string kJournal = std::string{ROOT} + "/tests/tune/data/optuna_journal.log";

/// A study that Optuna 5.0.0 has saved (record_optuna.py), in both of its formats.
class OptunaStudyTest : public testing::Test {
 protected:
  TemporaryFolder folder_;

  std::string database() const {
    const std::string file = folder_.path() / "study.db";
    if (std::filesystem::exists(file)) return file;
    const std::string make =
        "python3 -c 'import sqlite3, sys; "
        "sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())' " +
        file + " " ROOT "/tests/tune/data/optuna_study.sql";
    EXPECT_EQ(std::system(make.c_str()), 0);
    return file;
  }
  std::string file_of(const std::string& text) const {
    const std::string file = folder_.path() / "journal.log";
    std::ofstream{file, std::ios::binary} << text;
    return file;
  }
  static std::string journal() {
    std::ifstream file{kJournal, std::ios::binary};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::string why_not(ErrorCode code, const std::string& file, const std::string& study = "sizes") {
    try {
      load_optuna_study(file, study);
    } catch (const Exception& why) {
      EXPECT_EQ(why.error().code(), code) << why.what();
      return why.what();
    }
    return "it was read";
  }
};

TEST_F(OptunaStudyTest, ItsTrialsAreThoseThatHaveAResult) {
  for (const std::string& file : {kJournal, database()}) {
    SCOPED_TRACE(file);
    const OptunaStudy study = load_optuna_study(file, "sizes");
    EXPECT_EQ(study.name, "sizes");
    EXPECT_EQ(study.results.goal(), Goal::kMaximise);
    ASSERT_EQ(study.results.trials().size(), 11U);
    EXPECT_EQ(study.results.count(State::kComplete), 9U);
    EXPECT_EQ(study.results.count(State::kStopped), 2U);

    const TrialResult& first = study.results.trials()[0];
    EXPECT_DOUBLE_EQ(*first.value, 0.0041708255249653945);
    EXPECT_EQ(first.step, 4U);
    EXPECT_DOUBLE_EQ(first.params.get<double>("eta"), 0.00046342505832948827);
    EXPECT_EQ(first.params.get<int>("depth"), 9);
    EXPECT_EQ(first.params.get<double>("subsample"), 0.5);
    EXPECT_EQ(first.params.get<int>("width"), 51);
    EXPECT_EQ(first.params.get<std::string>("booster"), "None");
    EXPECT_TRUE(first.params.get<bool>("fixed"));
    EXPECT_EQ(first.params.find("momentum"), nullptr);
    EXPECT_EQ(first.began_s, 0);
    EXPECT_GT(first.ended_s, 0.01);
    EXPECT_LT(first.ended_s, 1);

    const TrialResult& pruned = study.results.trials()[3];  // trial 4 in Optuna's study
    EXPECT_EQ(pruned.state, State::kStopped);
    EXPECT_EQ(pruned.step, 3U);
    EXPECT_DOUBLE_EQ(*pruned.value, 4.0 / 3);
    EXPECT_GT(*study.results.best().value, 0.9);
    EXPECT_EQ(study.results.best().params.get<std::string>("booster"), "dart");
  }
}

TEST_F(OptunaStudyTest, ItsSpaceIsWhatItHasDrawnFrom) {
  const Space wanted{{"eta", log_uniform(1e-4, 1e-1)},
                     {"depth", integers(3, 9)},
                     {"subsample", quantised(0.5, 1, 0.25)},
                     {"width", log_integers(4, 64)},
                     {"booster", choice({std::string{"gbtree"}, std::string{"dart"}, std::string{"None"}})},
                     {"fixed", choice({true})},
                     {"momentum", uniform(0, 1)}};
  for (const std::string& file : {kJournal, database()}) {
    const Space space = load_optuna_study(file, "sizes").space;
    ASSERT_EQ(space.parameters().size(), wanted.parameters().size());
    for (const auto& each : wanted.parameters()) {
      const auto* const found = space.find(each.name);
      ASSERT_NE(found, nullptr) << each.name;
      EXPECT_EQ(found->domain, each.domain) << each.name << ": " << to_string(found->domain);
    }
  }
}

TEST_F(OptunaStudyTest, ItBecomesASweepsFolder) {
  const auto folder = folder_.path() / "sweep";
  EXPECT_EQ(import_optuna_study(database(), folder, "sizes"), 11U);
  const SweepResults sweep = SweepResults::load(folder);
  EXPECT_EQ(sweep.trials().size(), 11U);
  EXPECT_EQ(sweep.count(State::kStopped), 2U);
  EXPECT_THROW(import_optuna_study(kJournal, folder, "sizes"), AlreadyExists);
}

TEST_F(OptunaStudyTest, AStudyHasToBeNamedWhereThereAreSeveral) {
  for (const std::string& file : {kJournal, database()}) {
    EXPECT_SAYS(why_not(ErrorCode::kNotFound, file, ""), "there are several studies in " + file);
    EXPECT_SAYS(why_not(ErrorCode::kNotFound, file, ""), "two, sizes, empty");
    EXPECT_SAYS(why_not(ErrorCode::kNotFound, file, "size"), "there is no study \"size\" in " + file);
    EXPECT_SAYS(why_not(ErrorCode::kUnsupported, file, "two"), "the study \"two\" has 2 objectives");
    EXPECT_TRUE(load_optuna_study(file, "empty").results.trials().empty());
  }
  EXPECT_SAYS(why_not(ErrorCode::kNotFound, folder_.path() / "nothing.db"), "nothing.db cannot be read");
}

TEST_F(OptunaStudyTest, WhatIsNoStudyIsRefused) {
  EXPECT_SAYS(why_not(ErrorCode::kCorrupt, file_of("a,b\n1,2\n")),
              "line 1: this text is not valid JSON for an operation: a,b");
  EXPECT_SAYS(why_not(ErrorCode::kCorrupt, file_of("{\"op_code\":4,\"study_id\":3}\n")), "line 1: ");
  EXPECT_SAYS(why_not(ErrorCode::kCorrupt, file_of("{\"op_code\":5,\"trial_id\":0}\n")), "line 1: ");
  EXPECT_SAYS(
      why_not(ErrorCode::kCorrupt, file_of(journal() + "{\"op_code\":6,\"trial_id\":0,\"state\":9,\"values\":null}\n")),
      "a trial has state 9");
  const std::string drawn = "\"param_value_internal\":2,\"distribution\":\"{\\\"name\\\": \\\"CategoricalDistribution";
  std::string text = journal();
  ASSERT_NE(text.find(drawn), std::string::npos);
  text.replace(text.find(drawn), drawn.size(), "\"param_value_internal\":7" + drawn.substr(24));
  EXPECT_SAYS(why_not(ErrorCode::kCorrupt, file_of(text)), "7.000000 is outside of the domain: ");
  const std::string cut = folder_.path() / "cut.db";
  std::filesystem::copy_file(database(), cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  EXPECT_SAYS(why_not(ErrorCode::kCorrupt, cut), "database disk image is malformed");
  std::ofstream{cut, std::ios::binary} << "SQLite format 3" << std::string(5000, 'x');
  EXPECT_SAYS(why_not(ErrorCode::kCorrupt, cut), "file is not a database");
}

/// Whichever bytes are missing or wrong, reading returns an error or a study.
TEST_F(OptunaStudyTest, AJournalThatIsCutOrChangedAnywhereEndsNothing) {
  const std::string whole = journal();
  int read = 0;
  for (std::size_t cut = 0; cut < whole.size(); cut += 101) {
    std::string changed = whole;
    changed[cut] = static_cast<char>(changed[cut] ^ 21);
    for (const std::string& each : {whole.substr(0, cut), changed}) {
      try {
        read += static_cast<int>(load_optuna_study(file_of(each), "sizes").results.trials().size() <= 12);
      } catch (const Exception& why) {
        EXPECT_NE(std::string{why.what()}, "");
      }
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace pharos::ml
