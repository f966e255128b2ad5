// What a sweep asks its searcher and tells it, without the sweep.

#include "run/proposals.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace pharos::ml {
namespace {

/// Proposes `next`, and notes what it is told.
class Fake final : public Searcher {
 public:
  Params ask(std::uint64_t) override { return next; }
  Value ask(std::uint64_t, std::string_view, const Domain&) override { return 0.5; }
  void began(std::uint64_t trial, const Params&) override { begun.push_back(trial); }
  void tell(std::uint64_t trial, const Outcome& outcome) override { told.emplace_back(trial, outcome); }

  Params next{};
  std::vector<std::uint64_t> begun;
  std::vector<std::pair<std::uint64_t, Outcome>> told;
};

TrialResult complete_trial(std::uint64_t number, double value) {
  TrialResult trial;
  trial.number = number;
  trial.state = TrialResult::State::kComplete;
  trial.value = value;
  return trial;
}

class ProposalsTest : public testing::Test {
 protected:
  const Space space{{"x", uniform(0, 1)}};
  SweepRules rules;
  Fake searcher;
};

TEST_F(ProposalsTest, OutcomesAreToldAtOnceUnlessTrialsAreProposedInOrder) {
  Proposals proposals{rules, space, searcher};
  proposals.began(0, {});
  proposals.began(1, {});
  proposals.ended(complete_trial(1, 3));
  ASSERT_EQ(searcher.told.size(), 1U);
  EXPECT_EQ(searcher.told[0].first, 1U);
  EXPECT_EQ(searcher.told[0].second.value, 3);
  EXPECT_FALSE(proposals.must_wait(2));
}

TEST_F(ProposalsTest, InOrderATrialWaitsForExactlyTheOutcomesThatItIsToKnow) {
  rules.in_order = 2;
  Proposals proposals{rules, space, searcher};
  proposals.began(0, {});
  proposals.began(1, {});
  EXPECT_TRUE(proposals.must_wait(2)) << "for trial 0";
  proposals.ended(complete_trial(1, 3));
  EXPECT_TRUE(proposals.must_wait(2));
  EXPECT_TRUE(searcher.told.empty());
  proposals.ended(complete_trial(0, 4));
  EXPECT_FALSE(proposals.must_wait(2));
  proposals.propose(2);
  ASSERT_EQ(searcher.told.size(), 1U);
  EXPECT_EQ(searcher.told[0].first, 0U);
}

TEST_F(ProposalsTest, WhatTheSpaceLacksWaitsUntilTheTrialAsksForIt) {
  Proposals proposals{rules, space, searcher};
  searcher.next = Params{{"x", 0.25}, {"later", 0.75}};
  EXPECT_EQ(proposals.propose(0).find("later"), nullptr);
  EXPECT_EQ(std::get<double>(proposals.answer(0, "later", uniform(0, 1))), 0.75);
  EXPECT_EQ(std::get<double>(proposals.answer(0, "later", uniform(0, 0.6))), 0.5) << "this domain does not hold 0.75";
  proposals.began(0, {});
  proposals.ended(complete_trial(0, 1));
  EXPECT_EQ(std::get<double>(proposals.answer(0, "later", uniform(0, 1))), 0.5);
}

TEST_F(ProposalsTest, ParametersOfTheFirstTrialsReplaceProposals) {
  rules.first = {Params{{"x", 0.125}}};
  searcher.next = Params{{"x", 0.25}};
  Proposals proposals{rules, space, searcher};
  EXPECT_EQ(proposals.propose(0).get<double>("x"), 0.125);
  EXPECT_EQ(proposals.propose(1).get<double>("x"), 0.25);
}

TEST_F(ProposalsTest, LessIsBetterForTheSearcherAndATrialWithoutAValueHasFailed) {
  rules.goal = Goal::kMaximise;
  rules.constraints = {"memory"};
  Proposals proposals{rules, space, searcher};
  for (const std::uint64_t trial : {0, 1}) proposals.began(trial, {});
  proposals.ended(complete_trial(0, 3));
  proposals.ended(complete_trial(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(searcher.told[0].second.value, -3);
  EXPECT_TRUE(std::isinf(searcher.told[0].second.constraints.at(0))) << "a constraint that is not reported is violated";
  EXPECT_EQ(searcher.told[1].second.state, Outcome::State::kFailed);
}

TEST_F(ProposalsTest, AFirstTrialTakesNoValueOfAnotherBranch) {
  Space branches{{"kind", choice({"a", "b"})}};
  branches.when("kind", "a", Space{{"x", uniform(0, 1)}, {"y", uniform(0, 1)}});
  branches.when("kind", "b", Space{{"x", uniform(5, 6)}, {"y", uniform(0.25, 0.75)}});
  rules.first = {Params{{"kind", "a"}, {"y", 1.0}}, Params{{"kind", "b"}, {"x", 5.5}}};
  searcher.next = {{"kind", "b"}, {"x", 5.25}, {"y", 0.75}};
  Proposals proposals{rules, branches, searcher};
  EXPECT_EQ(proposals.propose(0), (Params{{"kind", "a"}, {"x", 0.5}, {"y", 1.0}}));
  searcher.next = {{"kind", "a"}, {"x", 0.75}, {"y", 1.0}};
  EXPECT_EQ(proposals.propose(1), (Params{{"kind", "b"}, {"x", 5.5}, {"y", 0.5}}));
}

}  // namespace
}  // namespace pharos::ml
