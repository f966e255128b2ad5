#include <gtest/gtest.h>

#include "leases_fixture.hpp"

namespace pharos::scheduler {
namespace {

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

TEST_F(LeasesTest, AnIdleWorkerServesItsOwnEnvironmentOnly) {
  const auto request_in = [&](std::uint64_t id, const Environment& environment) {
    Lessee lessee = driver_of(7);
    lessee.environment = environment;
    return *leases_.request(LeaseRequestId{id}, lessee, kOneCpu, now_);
  };
  const LeaseEffects first = request_in(1, {"COLOR=red"});
  EXPECT_EQ(std::get<StartWorker>(first.front()).environment, (Environment{"COLOR=red"}));
  started(1, 50);
  returned(50);
  EXPECT_EQ(texts(request_in(2, {"COLOR=blue"})), (Texts{"start 2 job 7"}));
  started(2, 51);
  returned(51);
  EXPECT_EQ(request(3, 7), (Texts{"start 3 job 7"}));
  EXPECT_EQ(texts(request_in(4, {"COLOR=red"})), (Texts{"grant 4 worker 50"}));
  started(3, 52);
  returned(52);
  EXPECT_EQ(leases_.idle(), 2U);
  EXPECT_EQ(texts(leases_.end_idle_in_environments()), (Texts{"end worker 51"}));
  EXPECT_EQ(leases_.idle(), 1U);
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

TEST_F(LeasesTest, WhenABundleIsGivenUpItsTasksEndAndNothingNewBegins) {
  request(1, 7);
  request(2, 7);
  request(3, 7);
  started(1, 50);
  started(2, 51);
  EXPECT_EQ(texts(leases_.close(now_)), (Texts{"refuse 3", "recall 2 of 50 51"}));
  EXPECT_FALSE(leases_.is_unused());
  EXPECT_TRUE(leases_.has_to_recall()) << "the recall is said again if it has no effect";
  EXPECT_EQ(texts(leases_.recall(now_ + 1ms)), Texts{});
  EXPECT_EQ(texts(leases_.recall(now_ + Leases::kSayAgainTime)), (Texts{"recall 2 of 50 51"}));
  EXPECT_EQ(returned(50), (Texts{"end worker 50"})) << "it is not kept for others";
  EXPECT_EQ(texts(leases_.worker_ended(WorkerId{51})), Texts{});
  EXPECT_TRUE(leases_.is_unused());
  EXPECT_FALSE(leases_.has_to_recall());
  EXPECT_EQ(leases_.check(), "");
}

TEST_F(LeasesTest, ABundleThatIsGivenUpEndsItsIdleWorkersAndThoseThatStart) {
  request(1, 7);
  request(2, 7);
  started(1, 50);
  returned(50);
  EXPECT_EQ(texts(leases_.close(now_)), (Texts{"end worker 50"}));
  EXPECT_EQ(started(2, 51), (Texts{"grant 2 worker 51"}));
  EXPECT_TRUE(leases_.has_to_recall());
  EXPECT_EQ(texts(leases_.recall(now_)), (Texts{"recall 1 of 51"}));
}

TEST_F(LeasesTest, ABundlesGpusAreThoseThatItHas) {
  Leases bundle{Allotment{*Resources::parse("cpu=1,gpu=2"), {{2, Resources::kWhole}, {5, Resources::kWhole}}},
                kWorkersMax, kIdleTime};
  const auto one = bundle.request(LeaseRequestId{1}, driver_of(7), *Resources::parse("gpu=0.5"), now_);
  ASSERT_TRUE(one);
  EXPECT_EQ(std::get<StartWorker>(one->front()).gpus, (std::vector{GpuShare{2, Resources::kWhole / 2}}));
  const auto other = bundle.request(LeaseRequestId{2}, driver_of(7), *Resources::parse("gpu=1"), now_);
  ASSERT_TRUE(other);
  EXPECT_EQ(std::get<StartWorker>(other->front()).gpus, (std::vector{GpuShare{5, Resources::kWhole}}));
  EXPECT_EQ(bundle.check(), "");
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

}  // namespace
}  // namespace pharos::scheduler
