#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "leases_fixture.hpp"
#include "resources_of.hpp"
#include "seed.hpp"

namespace pharos::scheduler {
namespace {

/// Leases that the node recalls for those who wait.
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

}  // namespace
}  // namespace pharos::scheduler
