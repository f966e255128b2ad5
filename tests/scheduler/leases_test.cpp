#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <pharos/scheduler/leases.hpp>

#include "seed.hpp"

namespace pharos::scheduler {
namespace {

using namespace std::chrono_literals;

constexpr auto kIdleTime = 10s;

/// The effect as text, so that a failed test shows a readable difference.
std::string to_text(const LeaseEffect& effect) {
  if (const auto* const grant = std::get_if<Grant>(&effect)) {
    return "grant " + std::to_string(grant->request.value()) + " worker " + std::to_string(grant->worker.value());
  }
  if (const auto* const start = std::get_if<StartWorker>(&effect)) {
    return "start " + std::to_string(start->request.value()) + " job " + std::to_string(start->job.value());
  }
  if (const auto* const reserved = std::get_if<Reserved>(&effect)) {
    return "reserved " + std::to_string(reserved->reservation.value());
  }
  if (const auto* const refused = std::get_if<Refuse>(&effect)) {
    return "refuse " + std::to_string(refused->request.value());
  }
  if (const auto* const recall = std::get_if<Recall>(&effect)) {
    std::string text = "recall " + std::to_string(recall->count) + " of";
    for (const WorkerId worker : recall->workers) text += ' ' + std::to_string(worker.value());
    return text;
  }
  return "end worker " + std::to_string(std::get<EndWorker>(effect).worker.value());
}

std::vector<std::string> texts(const LeaseEffects& effects) {
  std::vector<std::string> result;
  std::transform(effects.begin(), effects.end(), std::back_inserter(result), to_text);
  return result;
}
using Texts = std::vector<std::string>;

constexpr std::uint32_t kWorkersMax = 6;
const Resources kOneCpu = Resources::of_cpus(1);

std::uint32_t in_use(const Leases& leases) {
  return static_cast<std::uint32_t>((leases.total().cpus() - leases.left().cpus()) / Resources::kWhole);
}

/// A job's driver is the caller with the job's number; callers with higher numbers are workers.
Lessee driver_of(std::uint64_t job) {
  return {JobId{job}, CallerId{job}, false};
}

class LeasesTest : public testing::Test {
 protected:
  Texts request(std::uint64_t id, std::uint64_t job) {
    return texts(*leases_.request(LeaseRequestId{id}, driver_of(job), kOneCpu, now_));
  }
  Result<LeaseEffects> nested_request(std::uint64_t id, std::uint64_t job, std::uint64_t caller) {
    return leases_.request(LeaseRequestId{id}, {JobId{job}, CallerId{caller}, true}, kOneCpu, now_);
  }
  Texts started(std::uint64_t request, std::uint64_t worker) {
    return texts(leases_.worker_started(LeaseRequestId{request}, WorkerId{worker}));
  }
  Texts returned(std::uint64_t worker) {
    return texts(leases_.returned(WorkerId{worker}, leases_.lessee_of(WorkerId{worker}).value_or(CallerId{}), now_));
  }

  TimePoint now_{1h};
  Leases leases_{Resources{{{"cpu", 2 * Resources::kWhole}, {"disk", Resources::kWhole}}}, kWorkersMax, kIdleTime};
};

TEST_F(LeasesTest, WhoIsServedElsewhereLeavesItsPlaceInLineToThoseBehindIt) {
  request(1, 7);
  ASSERT_TRUE(leases_.request(LeaseRequestId{2}, driver_of(7), Resources::of_cpus(2), now_));
  EXPECT_EQ(request(3, 7), Texts{}) << "what is left is set aside for the one before it";
  EXPECT_EQ(leases_.withdraw(LeaseRequestId{1}), std::nullopt) << "a worker is being started for it";
  EXPECT_TRUE(leases_.starts(LeaseRequestId{1}));
  EXPECT_EQ(texts(*leases_.withdraw(LeaseRequestId{2})), (Texts{"start 3 job 7"}));
  EXPECT_EQ(leases_.withdraw(LeaseRequestId{2}), std::nullopt);
}

TEST_F(LeasesTest, ARequestStartsAWorkerAndIsGrantedWhenItHasStarted) {
  EXPECT_EQ(request(1, 7), (Texts{"start 1 job 7"}));
  EXPECT_EQ(in_use(leases_), 1u);
  EXPECT_EQ(started(1, 50), (Texts{"grant 1 worker 50"}));
  EXPECT_EQ(in_use(leases_), 1u);
}

TEST_F(LeasesTest, AWorkerHoldsWhatItWasLeasedWithButItsCpuWhileItsTaskWaits) {
  request(1, 7);
  started(1, 50);
  EXPECT_EQ(leases_.held_by(WorkerId{50}), kOneCpu);
  leases_.blocked(WorkerId{50});
  EXPECT_EQ(leases_.held_by(WorkerId{50}), Resources{});
  leases_.unblocked(WorkerId{50});
  EXPECT_EQ(leases_.held_by(WorkerId{50}), kOneCpu);
  returned(50);
  EXPECT_EQ(leases_.held_by(WorkerId{50}), Resources{});
}

TEST_F(LeasesTest, WhatDoesNotFitWaitsAndIsServedFirstComeFirstServed) {
  request(1, 7);
  request(2, 8);
  EXPECT_EQ(request(3, 7), Texts{});
  EXPECT_EQ(request(4, 8), Texts{});
  EXPECT_EQ(leases_.waiting(), 2u);
  started(2, 51);
  EXPECT_EQ(returned(51), (Texts{"start 3 job 7"})) << "4 could have had the idle worker, but 3 came first";
  EXPECT_EQ(leases_.idle(), 1u);
}

TEST_F(LeasesTest, AnIdleWorkerServesItsOwnJobOnlyAndTheWarmestGoesFirst) {
  request(1, 7);
  request(2, 7);
  started(1, 50);
  started(2, 51);
  returned(50);
  returned(51);
  EXPECT_EQ(request(3, 8), (Texts{"start 3 job 8"}));
  EXPECT_EQ(request(4, 7), (Texts{"grant 4 worker 51"}));
}

TEST_F(LeasesTest, AWorkerIsIdleForItsTimeAndThenEnds) {
  request(1, 7);
  started(1, 50);
  returned(50);
  EXPECT_EQ(texts(leases_.tick(now_ + kIdleTime - 1ns)), Texts{});
  EXPECT_EQ(texts(leases_.tick(now_ + kIdleTime)), (Texts{"end worker 50"}));
  EXPECT_EQ(texts(leases_.tick(now_ + 2 * kIdleTime)), Texts{});
  EXPECT_EQ(leases_.idle(), 0u);
}

TEST_F(LeasesTest, AWorkerThatCannotStartGivesItsPlaceToTheNext) {
  request(1, 7);
  request(2, 7);
  request(3, 7);
  EXPECT_EQ(texts(leases_.start_failed(LeaseRequestId{1})), (Texts{"start 3 job 7"}));
  EXPECT_EQ(texts(leases_.start_failed(LeaseRequestId{1})), Texts{});
  EXPECT_EQ(in_use(leases_), 2u);
}

TEST_F(LeasesTest, AWorkerThatEndsGivesItsPlaceToTheNextInWhateverStateItWas) {
  request(1, 7);
  request(2, 7);
  request(3, 7);
  started(1, 50);
  started(2, 51);
  EXPECT_EQ(texts(leases_.worker_ended(WorkerId{50})), (Texts{"start 3 job 7"}));
  EXPECT_EQ(returned(50), Texts{}) << "it is nobody's";
  returned(51);
  EXPECT_EQ(texts(leases_.worker_ended(WorkerId{51})), Texts{});
  EXPECT_EQ(leases_.idle(), 0u);
  EXPECT_EQ(texts(leases_.worker_ended(WorkerId{99})), Texts{});
}

TEST_F(LeasesTest, TheEndOfAJobReleasesAllThatIsItsAndServesTheOthers) {
  request(1, 7);
  request(2, 7);
  started(1, 50);  // worker 50 is leased; the one for request 2 is being started
  request(3, 7);   // this request waits
  request(4, 8);
  const auto effects = texts(leases_.job_ended(JobId{7}));
  EXPECT_EQ(effects, (Texts{"end worker 50", "start 4 job 8"}));
  EXPECT_EQ(started(2, 51), (Texts{"end worker 51"})) << "started for a job that is gone";
  EXPECT_EQ(in_use(leases_), 1u);
  EXPECT_EQ(leases_.waiting(), 0u);
}

TEST_F(LeasesTest, ABlockedWorkerGivesItsCpuToTheNextAndGoesOnWithoutOne) {
  request(1, 7);
  request(2, 7);
  request(3, 7);
  started(1, 50);
  started(2, 51);
  EXPECT_EQ(texts(leases_.blocked(WorkerId{50})), (Texts{"start 3 job 7"}));
  EXPECT_EQ(texts(leases_.blocked(WorkerId{50})), Texts{}) << "it has no second one to give";
  started(3, 52);
  EXPECT_EQ(texts(leases_.unblocked(WorkerId{50})), Texts{});
  EXPECT_EQ(in_use(leases_), 3u);
  request(4, 7);
  EXPECT_EQ(returned(51), Texts{}) << "two work still";
  EXPECT_EQ(returned(52), (Texts{"grant 4 worker 52"}));
}

TEST_F(LeasesTest, ABlockedWorkerThatEndsOrIsReturnedHasNoCpuToGiveBack) {
  request(1, 7);
  request(2, 7);
  started(1, 50);
  started(2, 51);
  leases_.blocked(WorkerId{50});
  leases_.blocked(WorkerId{51});
  EXPECT_EQ(in_use(leases_), 0u);
  leases_.worker_ended(WorkerId{50});
  returned(51);
  EXPECT_EQ(in_use(leases_), 0u);
  EXPECT_EQ(leases_.idle(), 1u);
}

TEST_F(LeasesTest, AtTheBoundOnlyDriversWaitAndBlockedWorkersBringNoMore) {
  for (std::uint64_t i = 1; i <= kWorkersMax; ++i) {
    request(i, 7);
    started(i, 50 + i);
    leases_.blocked(WorkerId{50 + i});
  }
  EXPECT_EQ(in_use(leases_), 0u);
  EXPECT_EQ(nested_request(20, 7, 51).error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(request(21, 7), Texts{});
  EXPECT_EQ(leases_.waiting(), 1u);
  EXPECT_EQ(returned(51), (Texts{"grant 21 worker 51"}));
}

TEST_F(LeasesTest, AtTheBoundAWorkerGetsWhatItCannotRunItself) {
  for (std::uint64_t i = 1; i <= kWorkersMax; ++i) {
    request(i, 7);
    started(i, 50 + i);
    leases_.blocked(WorkerId{50 + i});
  }
  const Resources disk{{{"cpu", Resources::kWhole}, {"disk", Resources::kWhole}}};
  const Lessee nested{JobId{7}, CallerId{51}, true};
  EXPECT_EQ(texts(*leases_.request(LeaseRequestId{20}, nested, disk, now_)), (Texts{"start 20 job 7"}));
  started(20, 90);
  EXPECT_EQ(texts(*leases_.request(LeaseRequestId{21}, nested, disk, now_)), Texts{}) << "there is one disk";
  EXPECT_EQ(returned(90), (Texts{"grant 21 worker 90"}));
}

TEST_F(LeasesTest, ANestedRequestThatWaitsIsRefusedWhenTheBoundIsReached) {
  for (std::uint64_t i = 1; i < kWorkersMax; ++i) {
    request(i, 7);
    started(i, 50 + i);
    if (i + 2 < kWorkersMax) leases_.blocked(WorkerId{50 + i});
  }
  EXPECT_EQ(in_use(leases_), 2u);
  EXPECT_EQ(request(20, 7), Texts{});
  ASSERT_TRUE(nested_request(21, 7, 51).ok());
  EXPECT_EQ(leases_.waiting(), 2u);
  EXPECT_EQ(texts(leases_.blocked(WorkerId{50 + kWorkersMax - 1})), (Texts{"start 20 job 7", "refuse 21"}));
  EXPECT_EQ(leases_.waiting(), 0u);
}

TEST_F(LeasesTest, TheEndOfALesseeEndsItsWorkersAndNoOthers) {
  request(1, 7);
  started(1, 50);
  leases_.blocked(WorkerId{50});
  ASSERT_TRUE(nested_request(2, 7, 50).ok());
  started(2, 51);
  ASSERT_TRUE(nested_request(3, 7, 50).ok());  // its worker is being started
  ASSERT_TRUE(nested_request(4, 7, 50).ok());  // this request waits
  EXPECT_EQ(leases_.waiting(), 1u);
  EXPECT_EQ(texts(leases_.lessee_ended(CallerId{50})), (Texts{"end worker 51"}));
  EXPECT_EQ(leases_.waiting(), 0u);
  EXPECT_EQ(in_use(leases_), 0u);
  EXPECT_EQ(started(3, 52), (Texts{"end worker 52"})) << "started for one who is gone";
  EXPECT_EQ(leases_.lessee_of(WorkerId{50}), CallerId{7});
}

TEST_F(LeasesTest, OnlyItsLesseeReturnsAWorker) {
  request(1, 7);
  started(1, 50);
  EXPECT_EQ(texts(leases_.returned(WorkerId{50}, CallerId{8}, now_)), Texts{});
  EXPECT_EQ(in_use(leases_), 1u);
}

TEST_F(LeasesTest, TooManyThatWaitAreRefused) {
  request(1, 7);
  request(2, 7);
  for (std::size_t i = 0; i < Leases::kWaitingMax; ++i)
    ASSERT_TRUE(leases_.request(LeaseRequestId{i + 3}, driver_of(7), kOneCpu, now_).ok());
  const auto refused = leases_.request(LeaseRequestId{~0ull}, driver_of(7), kOneCpu, now_);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(leases_.waiting(), Leases::kWaitingMax);
}

// ---- Demands of other shapes

Resources of(const std::string& text) {
  return *Resources::parse(text);
}

class ShapedLeasesTest : public LeasesTest {
 protected:
  ShapedLeasesTest() { leases_ = Leases{of("cpu=2,gpu=2"), kWorkersMax, kIdleTime}; }
  LeaseEffects ask(std::uint64_t id, const std::string& demand) {
    return *leases_.request(LeaseRequestId{id}, driver_of(7), of(demand), now_);
  }
};

TEST_F(ShapedLeasesTest, ALeaseWithAGpuIsToldWhichOneAndItsWorkerEndsWithIt) {
  const auto effects = ask(1, "cpu=1,gpu=0.5");
  ASSERT_EQ(texts(effects), (Texts{"start 1 job 7"}));
  EXPECT_EQ(std::get<StartWorker>(effects[0]).gpus, (std::vector<GpuShare>{{0, 5000}}));
  started(1, 50);
  EXPECT_EQ(returned(50), (Texts{"end worker 50"}));
  EXPECT_EQ(leases_.left().gpus(), 15'000) << "it has memory on the GPU until it is gone";
  leases_.worker_ended(WorkerId{50});
  EXPECT_EQ(leases_.left(), leases_.total());
  EXPECT_EQ(leases_.idle(), 0u);
}

TEST_F(ShapedLeasesTest, AnIdleWorkerServesOtherShapesWithoutGpus) {
  request(1, 7);
  started(1, 50);
  returned(50);
  EXPECT_EQ(texts(ask(2, "cpu=2")), (Texts{"grant 2 worker 50"}));
  returned(50);
  EXPECT_EQ(texts(ask(3, "gpu=1")), (Texts{"start 3 job 7"})) << "it was started to see no GPU";
}

TEST_F(ShapedLeasesTest, ABlockedTaskGivesItsCpusAwayAndKeepsItsGpus) {
  ask(1, "cpu=2,gpu=2");
  started(1, 50);
  EXPECT_EQ(texts(ask(2, "cpu=1")), Texts{});
  EXPECT_EQ(texts(leases_.blocked(WorkerId{50})), (Texts{"start 2 job 7"}));
  EXPECT_EQ(texts(ask(3, "gpu=1")), Texts{});
  leases_.unblocked(WorkerId{50});
  EXPECT_EQ(leases_.left().cpus(), -Resources::kWhole);
}

TEST_F(ShapedLeasesTest, WhoWaitsForAGpuLetsThoseByWhoWantNone) {
  ask(1, "gpu=2");
  EXPECT_EQ(texts(ask(2, "cpu=1,gpu=1")), Texts{});
  EXPECT_EQ(texts(ask(3, "cpu=1")), (Texts{"start 3 job 7"}));
  EXPECT_EQ(texts(ask(4, "cpu=1")), Texts{}) << "the other CPU is set aside for 2";
}

TEST_F(ShapedLeasesTest, SmallRequestsDoNotStarveALargeOne) {
  ask(1, "cpu=1");
  started(1, 50);
  EXPECT_EQ(texts(ask(2, "cpu=2")), Texts{});
  EXPECT_EQ(texts(ask(3, "cpu=1")), Texts{});
  EXPECT_EQ(returned(50), (Texts{"grant 2 worker 50"}));
}

TEST_F(ShapedLeasesTest, WhatAnActorWasGivenComesBeforeTasksThatWait) {
  ask(1, "cpu=2");
  started(1, 50);
  EXPECT_EQ(texts(ask(2, "cpu=1")), Texts{});
  EXPECT_EQ(texts(leases_.reserve(ReservationId{9}, {of("cpu=2"), {}}, now_)), Texts{});
  EXPECT_EQ(returned(50), (Texts{"reserved 9"}));
  EXPECT_EQ(texts(leases_.release(ReservationId{9})), (Texts{"grant 2 worker 50"}));
}

TEST_F(ShapedLeasesTest, AReservationWaitsForTheVeryGpuThatItWasGiven) {
  ask(1, "gpu=1");
  started(1, 50);
  EXPECT_EQ(texts(leases_.reserve(ReservationId{9}, {of("gpu=1"), {{0, 10'000}}}, now_)), Texts{});
  EXPECT_EQ(texts(leases_.reserve(ReservationId{10}, {of("gpu=1"), {{1, 10'000}}}, now_)), Texts{})
      << "one GPU is free, and 9 came first";
  returned(50);
  EXPECT_EQ(texts(leases_.worker_ended(WorkerId{50})), (Texts{"reserved 9", "reserved 10"}));
}

TEST_F(ShapedLeasesTest, AReservationThatIsGivenUpWhileItWaitsTakesNothing) {
  ask(1, "gpu=2");
  leases_.reserve(ReservationId{9}, {of("gpu=1"), {{0, 10'000}}}, now_);
  leases_.release(ReservationId{9});
  leases_.start_failed(LeaseRequestId{1});
  EXPECT_EQ(leases_.left(), leases_.total());
}

// ---- Leases that are recalled

class RecallTest : public LeasesTest {
 protected:
  RecallTest() { leases_ = Leases{of("cpu=4,gpu=1"), kManyWorkers, kIdleTime}; }
  /// Requests a lease for the job's driver, or for another caller of the job if `caller` is not 0.
  Texts ask(std::uint64_t id, std::uint64_t job, std::uint64_t caller = 0, const std::string& demand = "cpu=1") {
    const Lessee lessee{JobId{job}, CallerId{caller == 0 ? job : caller}, caller != 0};
    return texts(*leases_.request(LeaseRequestId{id}, lessee, of(demand), now_));
  }
  /// Gives job 7 the workers 51 to 54. Its requests 5 to 8 wait.
  void let_job_7_have_all() {
    for (std::uint64_t i = 1; i <= 8; ++i) ask(i, 7);
    for (std::uint64_t i = 1; i <= 4; ++i) started(i, 50 + i);
    now_ += 1s;
  }
  Texts recall_after(Duration time) {
    now_ += time;
    return texts(leases_.recall(now_));
  }

  static constexpr std::uint32_t kManyWorkers = 64;
};

TEST_F(RecallTest, ALoneProgramKeepsItsLeases) {
  let_job_7_have_all();
  EXPECT_FALSE(leases_.has_to_recall());
  EXPECT_EQ(recall_after(1h), Texts{});
}

TEST_F(RecallTest, WhoWaitsBehindAProgramThatHasAllGetsTheNextLeaseThatEndsBeforeThatProgram) {
  let_job_7_have_all();
  EXPECT_EQ(ask(20, 8), Texts{});
  EXPECT_TRUE(leases_.has_to_recall());
  EXPECT_EQ(recall_after(Leases::kWaitBeforeRecall - 1ns), Texts{});
  EXPECT_EQ(recall_after(1ns), (Texts{"recall 1 of 51 52 53 54"}));
  EXPECT_EQ(recall_after(5ms), Texts{}) << "once";
  EXPECT_EQ(returned(53), (Texts{"start 20 job 8"})) << "5 has waited longer, but its program has three";
  EXPECT_EQ(recall_after(1h), Texts{}) << "what waits now is the first program's";
}

TEST_F(RecallTest, AProgramThatWaitsForMoreGetsAsMuchAsTheOtherAndNoMore) {
  let_job_7_have_all();
  for (std::uint64_t i = 20; i < 24; ++i) ask(i, 8);
  EXPECT_EQ(recall_after(10ms), (Texts{"recall 2 of 51 52 53 54"}));
  EXPECT_EQ(returned(51), (Texts{"start 20 job 8"}));
  EXPECT_EQ(returned(52), (Texts{"start 21 job 8"}));
  started(20, 60);
  started(21, 61);
  EXPECT_EQ(recall_after(1h), Texts{}) << "both have two and wait for more";
}

TEST_F(RecallTest, TwoProgramsTakeTurnsOnOneCpu) {
  leases_ = Leases{of("cpu=1"), kManyWorkers, kIdleTime};
  ask(1, 7);
  started(1, 51);
  ask(2, 7);
  ask(3, 8);
  EXPECT_EQ(recall_after(Leases::kLeaseMin - 1ns), Texts{}) << "it has had it for too short a time";
  EXPECT_EQ(recall_after(1ns), (Texts{"recall 1 of 51"}));
  EXPECT_EQ(returned(51), (Texts{"start 3 job 8"}));
  started(3, 61);
  EXPECT_EQ(recall_after(Leases::kLeaseMin), (Texts{"recall 1 of 61"}));
  EXPECT_EQ(returned(61), (Texts{"grant 2 worker 51"}));
}

TEST_F(RecallTest, AnActorGetsWhatItLacksFromWhoHasMost) {
  ask(1, 7);
  started(1, 51);
  for (std::uint64_t i = 2; i <= 4; ++i) ask(i, 8);
  for (std::uint64_t i = 2; i <= 4; ++i) started(i, 50 + i);
  now_ += 1s;
  EXPECT_EQ(texts(leases_.reserve(ReservationId{9}, {of("cpu=2"), {}}, now_)), Texts{});
  EXPECT_EQ(recall_after(10ms), (Texts{"recall 2 of 52 53 54"}));
  EXPECT_EQ(returned(52), Texts{});
  EXPECT_EQ(returned(54), (Texts{"reserved 9"}));
  EXPECT_EQ(recall_after(1h), Texts{});
}

TEST_F(RecallTest, AnotherCallerOfTheSameProgramThatHasNothingIsServedToo) {
  let_job_7_have_all();
  ask(20, 7, 51);
  EXPECT_EQ(recall_after(10ms), (Texts{"recall 1 of 51 52 53 54"}));
  EXPECT_EQ(returned(51), (Texts{"grant 20 worker 51"}));
}

TEST_F(RecallTest, AWorkerWhoseTaskWaitsHasNothingThatCouldBeReturned) {
  let_job_7_have_all();
  leases_.blocked(WorkerId{51});
  ask(20, 8);
  started(5, 55);  // gets the CPU that worker 51 does not use
  EXPECT_EQ(recall_after(1s), (Texts{"recall 1 of 52 53 54 55"}));
}

TEST_F(RecallTest, NothingIsRecalledForWhatWouldNotFitThen) {
  leases_.reserve(ReservationId{9}, {of("cpu=1"), {}}, now_);
  for (std::uint64_t i = 1; i <= 3; ++i) ask(i, 7);
  for (std::uint64_t i = 1; i <= 3; ++i) started(i, 50 + i);
  ask(20, 8, 0, "cpu=4");
  EXPECT_EQ(recall_after(1s), Texts{});
  leases_.release(ReservationId{9});
  EXPECT_EQ(recall_after(1s), (Texts{"recall 3 of 51 52 53"}));
  returned(51);
  returned(52);
  EXPECT_EQ(returned(53), (Texts{"start 20 job 8"}));
}

TEST_F(RecallTest, WhereTasksTakeLongAnotherOneIsRecalledAfterAWhileAndAllAreToldAgain) {
  ask(1, 7);
  ask(2, 7);
  ask(3, 8);
  ask(4, 8);
  for (std::uint64_t i = 1; i <= 4; ++i) started(i, 50 + i);
  now_ += 1s;
  ask(20, 9);
  EXPECT_EQ(recall_after(10ms), (Texts{"recall 1 of 51 52"}));
  EXPECT_EQ(recall_after(Leases::kAnswerTime - 1ns), Texts{});
  EXPECT_EQ(recall_after(1ns), (Texts{"recall 2 of 51 52"})) << "they are the oldest";
  EXPECT_EQ(recall_after(Leases::kAnswerTime), (Texts{"recall 1 of 53 54"}));
  EXPECT_EQ(recall_after(Leases::kAnswerTime), (Texts{"recall 2 of 53 54"}));
  EXPECT_EQ(recall_after(Leases::kAnswerTime), Texts{});
  EXPECT_EQ(recall_after(Leases::kSayAgainTime), (Texts{"recall 2 of 51 52", "recall 2 of 53 54"}));
  EXPECT_EQ(returned(53), (Texts{"start 20 job 9"}));
}

TEST_F(RecallTest, AProcessWithAGpuIsLeftToItsProgramForLonger) {
  ask(1, 7, 0, "gpu=1");
  started(1, 51);
  ask(2, 8, 0, "gpu=1");
  EXPECT_EQ(recall_after(Leases::kGpuLeaseMin - 1ns), Texts{});
  EXPECT_EQ(recall_after(1ns), (Texts{"recall 1 of 51"}));
}

TEST_F(RecallTest, WhatIsRecalledForOneWhoGoesIsServedInTheOldOrder) {
  let_job_7_have_all();
  ask(20, 8);
  recall_after(10ms);
  EXPECT_TRUE(leases_.withdraw(LeaseRequestId{20}));
  EXPECT_EQ(returned(52), (Texts{"grant 5 worker 52"}));
}

TEST_F(RecallTest, WhatNobodyElseWaitsForAnyMoreItsLesseeKeeps) {
  let_job_7_have_all();
  ask(20, 8);
  ask(21, 8);
  EXPECT_EQ(recall_after(10ms), (Texts{"recall 2 of 51 52 53 54"}));
  leases_.withdraw(LeaseRequestId{20});
  EXPECT_EQ(recall_after(5ms), Texts{}) << "another one waits";
  leases_.withdraw(LeaseRequestId{21});
  EXPECT_TRUE(leases_.has_to_recall());
  EXPECT_EQ(recall_after(5ms), (Texts{"recall 0 of 51 52 53 54"}));
  EXPECT_FALSE(leases_.has_to_recall());
}

/// Programs with endless tasks, some short and some long. Measures how long each program runs, and how long it waits
/// without a worker.
class SharedNode : public SeededTest {
 protected:
  struct Program {
    Duration task;
    std::size_t workers = 0;
    TimePoint idle_since;  // since when it has no worker
    Duration ran{};
    Duration longest_idle{};
  };
  struct Running {
    std::size_t program;
    TimePoint ends;
    bool recalled = false;
  };

  void ask(std::size_t program) {
    const std::uint64_t id = ++last_id_;
    owner_[id] = program;
    apply(*leases_->request(LeaseRequestId{id}, driver_of(program + 1), kOneCpu, now_));
  }
  void apply(const LeaseEffects& effects) {
    for (const LeaseEffect& effect : effects) {
      if (const auto* const start = std::get_if<StartWorker>(&effect)) {
        apply(leases_->worker_started(start->request, WorkerId{++last_id_}));
      } else if (const auto* const grant = std::get_if<Grant>(&effect)) {
        run(grant->request.value(), grant->worker.value());
      } else if (const auto* const recall = std::get_if<Recall>(&effect)) {
        note(*recall);
      }
    }
  }
  void run(std::uint64_t request, std::uint64_t worker) {
    ++grants_;
    const std::size_t program = owner_.at(request);
    Program& its = programs_[program];
    if (its.workers++ == 0) its.longest_idle = std::max(its.longest_idle, now_ - its.idle_since);
    running_[worker] = {program, now_ + its.task};
    ask(program);
  }
  void note(const Recall& recall) {
    for (const WorkerId worker : recall.workers) running_.at(worker.value()).recalled = false;
    std::vector<Running*> all;
    for (const WorkerId worker : recall.workers) all.push_back(&running_.at(worker.value()));
    std::sort(all.begin(), all.end(), [](const Running* a, const Running* b) { return a->ends < b->ends; });
    for (std::size_t i = 0; i < recall.count; ++i) all[i]->recalled = true;
  }
  void step(Duration by) {
    now_ += by;
    std::vector<std::uint64_t> given_back;
    for (auto& [worker, its] : running_) {
      programs_[its.program].ran += by;
      if (now_ < its.ends) continue;
      its.ends = now_ + programs_[its.program].task;
      if (its.recalled) given_back.push_back(worker);
    }
    for (const std::uint64_t worker : given_back) {
      Program& its = programs_[running_.extract(worker).mapped().program];
      if (--its.workers == 0) its.idle_since = now_;
      apply(leases_->returned(WorkerId{worker}, *leases_->lessee_of(WorkerId{worker}), now_));
    }
    apply(leases_->recall(now_));
    ASSERT_EQ(leases_->check(), "");
  }

  TimePoint now_{1h};
  std::optional<Leases> leases_;
  std::vector<Program> programs_;
  std::map<std::uint64_t, Running> running_;
  std::map<std::uint64_t, std::size_t> owner_;
  std::uint64_t last_id_ = 0;
  std::size_t grants_ = 0;
};

TEST_F(SharedNode, EachProgramGetsItsShareAndHasNothingForNoLongerThanTheOthersTakeTurns) {
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t cpus = static_cast<std::uint32_t>(between(1, 8));
    const std::size_t programs = between(2, 6);
    leases_.emplace(Resources::of_cpus(cpus), 100, kIdleTime);
    running_.clear();
    grants_ = 0;
    programs_.assign(programs, {});
    Duration longest_task{};
    for (Program& each : programs_) {
      each.idle_since = now_;
      each.task = std::chrono::milliseconds{between(1, 120)};
      longest_task = std::max(longest_task, each.task);
    }
    for (std::size_t i = 0; i < programs; ++i) ask(i);
    constexpr int kSteps = 12'000;  // one minute of steps of 5 ms
    for (int i = 0; i < kSteps && !HasFatalFailure(); ++i) step(5ms);
    const Duration turn = std::max(Leases::kLeaseMin, longest_task) + Leases::kWaitBeforeRecall + longest_task;
    const auto turns = static_cast<std::int64_t>((programs + cpus - 1) / cpus);
    const Duration fair = kSteps * 5ms * static_cast<std::int64_t>(cpus) / static_cast<std::int64_t>(programs);
    for (const Program& each : programs_) {
      EXPECT_GE(each.ran, fair / 3) << cpus << " CPUs, " << programs << " programs, tasks of " << each.task / 1ms;
      if (cpus < programs) {
        EXPECT_LE(each.longest_idle, turns * turn) << cpus << " CPUs, " << programs;
      }
    }
    EXPECT_LE(grants_, programs + cpus + kSteps * 5ms / Leases::kLeaseMin * cpus) << "to and fro";
  }
}

// A simple model of the same rules, without regard for speed: a list of requests in the order of arrival, and one of
// workers.
class Model {
 public:
  Model(std::uint32_t cpus, std::uint32_t workers_max) : cpus_{cpus}, workers_max_{workers_max} {}

  enum class State { kWaiting, kStarting };
  struct Request {
    std::uint64_t id;
    std::uint64_t job;
    State state;
  };
  struct Worker {
    std::uint64_t id;
    std::uint64_t job;
    std::optional<std::pair<TimePoint, std::uint64_t>> idle_since;  // with the number of this return
    bool blocked = false;
  };

  std::multiset<std::string> request(std::uint64_t id, std::uint64_t job) {
    requests.push_back({id, job, State::kWaiting});
    return settle();
  }
  std::multiset<std::string> started(std::uint64_t request, std::uint64_t worker) {
    const auto found = std::find_if(requests.begin(), requests.end(), [&](const auto& r) { return r.id == request; });
    if (found == requests.end()) return {"end worker " + std::to_string(worker)};
    workers.push_back({worker, found->job, std::nullopt, false});
    requests.erase(found);
    return {"grant " + std::to_string(request) + " worker " + std::to_string(worker)};
  }
  std::multiset<std::string> start_failed(std::uint64_t request) {
    std::erase_if(requests, [&](const auto& r) { return r.id == request && r.state == State::kStarting; });
    return settle();
  }
  std::multiset<std::string> returned(std::uint64_t worker, TimePoint now) {
    for (Worker& w : workers) {
      if (w.id != worker || w.idle_since) continue;
      w.idle_since = {now, ++returns_};
      w.blocked = false;
    }
    return settle();
  }
  std::multiset<std::string> set_blocked(std::uint64_t worker, bool blocked) {
    for (Worker& w : workers) {
      if (w.id == worker && !w.idle_since) w.blocked = blocked;
    }
    return blocked ? settle() : std::multiset<std::string>{};
  }
  std::multiset<std::string> worker_ended(std::uint64_t worker) {
    std::erase_if(workers, [&](const Worker& w) { return w.id == worker; });
    return settle();
  }
  std::multiset<std::string> job_ended(std::uint64_t job) {
    std::multiset<std::string> effects;
    for (const Worker& w : workers) {
      if (w.job == job) effects.insert("end worker " + std::to_string(w.id));
    }
    std::erase_if(workers, [&](const Worker& w) { return w.job == job; });
    std::erase_if(requests, [&](const Request& r) { return r.job == job; });
    effects.merge(settle());
    return effects;
  }
  std::multiset<std::string> tick(TimePoint now) {
    std::multiset<std::string> effects;
    std::erase_if(workers, [&](const Worker& w) {
      const bool ends = w.idle_since && now - w.idle_since->first >= kIdleTime;
      if (ends) effects.insert("end worker " + std::to_string(w.id));
      return ends;
    });
    return effects;
  }

  std::uint32_t in_use() const {
    const auto busy =
        std::count_if(workers.begin(), workers.end(), [](const auto& w) { return !w.idle_since && !w.blocked; });
    return static_cast<std::uint32_t>(busy + starting());
  }
  std::uint32_t all() const {
    const auto leased = std::count_if(workers.begin(), workers.end(), [](const auto& w) { return !w.idle_since; });
    return static_cast<std::uint32_t>(leased + starting());
  }
  std::ptrdiff_t starting() const {
    return std::count_if(requests.begin(), requests.end(), [](const auto& r) { return r.state == State::kStarting; });
  }
  std::size_t waiting() const {
    return static_cast<std::size_t>(
        std::count_if(requests.begin(), requests.end(), [](const auto& r) { return r.state == State::kWaiting; }));
  }

  std::deque<Request> requests;
  std::vector<Worker> workers;

 private:
  std::multiset<std::string> settle() {
    std::multiset<std::string> effects;
    while (in_use() < cpus_ && all() < workers_max_) {
      const auto next =
          std::find_if(requests.begin(), requests.end(), [](const auto& r) { return r.state == State::kWaiting; });
      if (next == requests.end()) break;
      Worker* warmest = nullptr;
      for (Worker& w : workers) {
        if (!w.idle_since || w.job != next->job) continue;
        if (warmest == nullptr || w.idle_since->second > warmest->idle_since->second) warmest = &w;
      }
      if (warmest == nullptr) {
        next->state = State::kStarting;
        effects.insert("start " + std::to_string(next->id) + " job " + std::to_string(next->job));
      } else {
        warmest->idle_since.reset();
        effects.insert("grant " + std::to_string(next->id) + " worker " + std::to_string(warmest->id));
        requests.erase(next);
      }
    }
    return effects;
  }

  const std::uint32_t cpus_;
  const std::uint32_t workers_max_;
  std::uint64_t returns_ = 0;
};

class LeasesAgainstTheModel : public SeededTest {
 protected:
  void run(std::uint64_t seed) {
    random_.seed(seed);
    const auto cpus = static_cast<std::uint32_t>(between(0, 5));
    const std::size_t jobs = between(1, 4);
    const auto workers_max = cpus + static_cast<std::uint32_t>(between(0, 4));
    Leases leases{Resources::of_cpus(cpus), workers_max, kIdleTime};
    Model model{cpus, workers_max};
    TimePoint now{1h};
    std::uint64_t last_id = 0;
    std::set<std::uint64_t> granted;
    std::vector<std::uint64_t> to_start;  // requests whose workers have to be started, also of ended jobs

    for (int step = 0; step < 200; ++step) {
      now += Duration{between(0, 3'000'000'000)};
      const auto any_worker = [&]() -> std::uint64_t {
        if (model.workers.empty() || chance(20)) return ++last_id;  // a worker that is not known
        return model.workers[between(0, model.workers.size() - 1)].id;
      };
      const auto take_start = [&]() -> std::uint64_t {
        if (to_start.empty()) return ++last_id;
        const std::size_t index = between(0, to_start.size() - 1);
        const std::uint64_t id = to_start[index];
        to_start.erase(to_start.begin() + static_cast<std::ptrdiff_t>(index));
        return id;
      };
      LeaseEffects effects;
      std::multiset<std::string> expected;
      const std::size_t what = between(0, 99);
      if (what < 35) {
        const std::uint64_t id = ++last_id;
        const std::uint64_t job = between(1, jobs);
        effects = *leases.request(LeaseRequestId{id}, driver_of(job), kOneCpu, now);
        expected = model.request(id, job);
      } else if (what < 60) {
        const std::uint64_t request = take_start();
        const std::uint64_t worker = ++last_id;
        effects = leases.worker_started(LeaseRequestId{request}, WorkerId{worker});
        expected = model.started(request, worker);
      } else if (what < 65) {
        const std::uint64_t request = take_start();
        effects = leases.start_failed(LeaseRequestId{request});
        expected = model.start_failed(request);
      } else if (what < 78) {
        const std::uint64_t worker = any_worker();
        effects = leases.returned(WorkerId{worker}, leases.lessee_of(WorkerId{worker}).value_or(CallerId{}), now);
        expected = model.returned(worker, now);
      } else if (what < 85) {
        const std::uint64_t worker = any_worker();
        const bool blocks = chance(2);
        effects = blocks ? leases.blocked(WorkerId{worker}) : leases.unblocked(WorkerId{worker});
        expected = model.set_blocked(worker, blocks);
      } else if (what < 92) {
        const std::uint64_t worker = any_worker();
        effects = leases.worker_ended(WorkerId{worker});
        expected = model.worker_ended(worker);
      } else if (what < 94) {
        const std::uint64_t job = between(1, jobs);
        effects = leases.job_ended(JobId{job});
        expected = model.job_ended(job);
      } else {
        effects = leases.tick(now);
        expected = model.tick(now);
      }

      const auto got = texts(effects);
      ASSERT_EQ((std::multiset<std::string>{got.begin(), got.end()}), expected) << "step " << step;
      std::uint64_t last_served = 0;
      for (const LeaseEffect& effect : effects) {
        if (const auto* const start = std::get_if<StartWorker>(&effect)) to_start.push_back(start->request.value());
        if (const auto* const grant = std::get_if<Grant>(&effect)) {
          ASSERT_TRUE(granted.insert(grant->request.value()).second) << "granted twice";
        }
        const auto* const grant = std::get_if<Grant>(&effect);
        const auto* const start = std::get_if<StartWorker>(&effect);
        if (grant == nullptr && start == nullptr) continue;
        const std::uint64_t served = grant != nullptr ? grant->request.value() : start->request.value();
        ASSERT_GT(served, last_served) << "not first come, first served";
        last_served = served;
      }
      ASSERT_EQ(in_use(leases), model.in_use()) << "step " << step;
      ASSERT_EQ(leases.check(), "") << "step " << step;
      ASSERT_EQ(leases.waiting(), model.waiting()) << "step " << step;
      const auto idle = std::count_if(model.workers.begin(), model.workers.end(),
                                      [](const Model::Worker& w) { return w.idle_since.has_value(); });
      ASSERT_EQ(leases.idle(), static_cast<std::size_t>(idle)) << "step " << step;
    }
    for (std::uint64_t job = 1; job <= jobs; ++job) leases.job_ended(JobId{job});
    ASSERT_EQ(in_use(leases), 0u);
    ASSERT_EQ(leases.waiting(), 0u);
    ASSERT_EQ(leases.idle(), 0u);
  }
};

TEST_F(LeasesAgainstTheModel, DoesTheSameInTwoThousandRandomRuns) {
  for (std::uint64_t run_number = 0; run_number < 2000; ++run_number) {
    SCOPED_TRACE("run " + std::to_string(run_number));
    run(seed_ + run_number);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pharos::scheduler
