#include <gtest/gtest.h>

#include <string>

#include "leases_fixture.hpp"
#include "resources_of.hpp"

namespace pharos::scheduler {
namespace {

/// Requests for other resources than one CPU.
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

}  // namespace
}  // namespace pharos::scheduler
