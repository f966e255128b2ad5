#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <pharos/scheduler/remote_requests.hpp>

#include "seed.hpp"

namespace pharos::scheduler {
namespace {

class RemoteRequestsTest : public testing::Test {
 protected:
  static Demand demand(const std::string& text) { return Demand{*Resources::parse(text)}; }
  void add(const std::string& text, std::uint64_t request) {
    waiting_.insert(LeaseRequestId{request});
    remote_requests_.add(demand(text), LeaseRequestId{request});
  }
  void leaves(std::uint64_t request) { waiting_.erase(LeaseRequestId{request}); }
  std::vector<std::uint64_t> asked_for() {
    std::vector<std::uint64_t> all;
    while (const auto next = remote_requests_.next()) all.push_back(next->value());
    return all;
  }
  using Requests = std::vector<std::uint64_t>;

  std::set<LeaseRequestId> waiting_;
  RemoteRequests remote_requests_{[this](LeaseRequestId request) { return waiting_.contains(request); }};
};

TEST_F(RemoteRequestsTest, OneOfEachDemandIsAskedForAndManyOnceThereIsRoom) {
  for (std::uint64_t i = 1; i <= 40; ++i) add("cpu=1", i);
  add("cpu=2", 100);
  EXPECT_EQ(asked_for(), (Requests{1, 100}));
  EXPECT_EQ(asked_for(), Requests{});
  leaves(1);
  remote_requests_.found_room(LeaseRequestId{1});
  EXPECT_EQ(asked_for().size(), RemoteRequests::kAskedMax - 1) << "one is asked for still";
  EXPECT_EQ(remote_requests_.asked(), RemoteRequests::kAskedMax);
}

TEST_F(RemoteRequestsTest, WhatNobodyHasRoomForIsAskedForOnceARoundAndHoldsUpNothingElse) {
  add("gpu=1", 1);
  add("cpu=1", 2);
  EXPECT_EQ(asked_for(), (Requests{2, 1}));
  remote_requests_.found_none(LeaseRequestId{1});
  leaves(2);
  remote_requests_.found_room(LeaseRequestId{2});
  add("cpu=1", 3);
  EXPECT_EQ(asked_for(), Requests{3});
  remote_requests_.begin_round();
  EXPECT_EQ(asked_for(), Requests{1});
  remote_requests_.found_none(LeaseRequestId{1});
  EXPECT_EQ(asked_for(), Requests{});
}

TEST_F(RemoteRequestsTest, AFullClusterIsAskedForAFewDemandsARoundAndForEachInTime) {
  for (std::uint64_t i = 1; i <= 20; ++i) add("cpu=" + std::to_string(i), i);
  for (Requests all = asked_for(); !all.empty(); all = asked_for()) {
    for (const auto each : all) remote_requests_.found_none(LeaseRequestId{each});
  }
  std::set<std::uint64_t> seen;
  for (int round = 0; round < 5; ++round) {
    remote_requests_.begin_round();
    const auto all = asked_for();
    EXPECT_EQ(all.size(), RemoteRequests::kAgainMax);
    seen.insert(all.begin(), all.end());
    for (const auto each : all) remote_requests_.found_none(LeaseRequestId{each});
  }
  EXPECT_EQ(seen.size(), 20u);
}

TEST_F(RemoteRequestsTest, AQuestionThatNobodyWaitsForMakesRoomForTheNext) {
  add("cpu=1", 1);
  add("cpu=1", 2);
  EXPECT_EQ(asked_for(), Requests{1});
  leaves(1);
  remote_requests_.forget(LeaseRequestId{1});
  EXPECT_EQ(asked_for(), Requests{2});
  remote_requests_.forget(LeaseRequestId{1});  // the second time has no effect
  EXPECT_EQ(remote_requests_.asked(), 1u);
}

TEST_F(RemoteRequestsTest, OfThoseThatHaveBeenServedNothingIsKept) {
  add("gpu=1", 1);
  EXPECT_EQ(asked_for(), Requests{1});
  remote_requests_.found_none(LeaseRequestId{1});
  for (std::uint64_t i = 2; i <= 10'000; ++i) {
    add("gpu=1", i);
    leaves(i);
  }
  EXPECT_LT(remote_requests_.kept(), 200u);
  leaves(1);
  EXPECT_EQ(asked_for(), Requests{});
  EXPECT_TRUE(remote_requests_.empty());
}

class OverflowRandomTest : public SeededTest {};

// In whatever order things happen, no request is asked for twice at once, and in the end each one has been asked for.
TEST_F(OverflowRandomTest, EverybodyWhoWaitsHasATurnAndNoBoundIsPassed) {
  std::set<std::uint64_t> waiting;
  RemoteRequests overflow{[&](LeaseRequestId request) { return waiting.contains(request.value()); }};
  std::set<std::uint64_t> asked;
  std::uint64_t last = 0;
  const auto answer_one = [&](bool has_room) {
    const auto at = std::next(asked.begin(), static_cast<std::ptrdiff_t>(between(0, asked.size() - 1)));
    const std::uint64_t request = *at;
    asked.erase(at);
    if (!waiting.contains(request) && chance(2)) return overflow.forget(LeaseRequestId{request});
    if (!has_room) return overflow.found_none(LeaseRequestId{request});
    waiting.erase(request);
    overflow.found_room(LeaseRequestId{request});
  };
  const auto ask = [&] {
    while (const auto next = overflow.next()) {
      EXPECT_TRUE(waiting.contains(next->value()));
      EXPECT_TRUE(asked.insert(next->value()).second) << next->value() << " is asked for twice";
    }
    EXPECT_LE(asked.size(), RemoteRequests::kAskedMax);
    EXPECT_EQ(asked.size(), overflow.asked());
  };
  for (int step = 0; step < 20'000; ++step) {
    if (chance(3)) {
      waiting.insert(++last);
      overflow.add(Demand{*Resources::parse("cpu=" + std::to_string(between(1, 9)))}, LeaseRequestId{last});
    } else if (chance(10) && !waiting.empty()) {
      waiting.erase(waiting.begin());
    } else if (chance(10)) {
      overflow.begin_round();
    } else if (!asked.empty()) {
      answer_one(chance(3));
    }
    ask();
  }
  for (int round = 0; round < 100'000 && !waiting.empty(); ++round) {
    overflow.begin_round();
    ask();
    while (!asked.empty()) answer_one(true);
  }
  EXPECT_TRUE(waiting.empty()) << *waiting.begin() << " was never asked for";
  ask();
  EXPECT_TRUE(overflow.empty());
}

}  // namespace
}  // namespace pharos::scheduler
