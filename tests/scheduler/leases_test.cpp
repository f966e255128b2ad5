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

/// As texts, so that a difference can be read.
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

/// A job's driver has the job's number, and its workers have higher ones.
Lessee driver_of(std::uint64_t job) {
  return {JobId{job}, CallerId{job}, false};
}

class LeasesTest : public testing::Test {
 protected:
  Texts request(std::uint64_t id, std::uint64_t job) {
    return texts(*leases_.request(LeaseRequestId{id}, driver_of(job), kOneCpu));
  }
  Result<LeaseEffects> nested_request(std::uint64_t id, std::uint64_t job, std::uint64_t caller) {
    return leases_.request(LeaseRequestId{id}, {JobId{job}, CallerId{caller}, true}, kOneCpu);
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
  ASSERT_TRUE(leases_.request(LeaseRequestId{2}, driver_of(7), Resources::of_cpus(2)));
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
  started(1, 50);  // leased; 2 is being started
  request(3, 7);   // waits
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
  EXPECT_EQ(texts(*leases_.request(LeaseRequestId{20}, nested, disk)), (Texts{"start 20 job 7"}));
  started(20, 90);
  EXPECT_EQ(texts(*leases_.request(LeaseRequestId{21}, nested, disk)), Texts{}) << "there is one disk";
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
  ASSERT_TRUE(nested_request(3, 7, 50).ok());  // being started
  ASSERT_TRUE(nested_request(4, 7, 50).ok());  // waits
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
    ASSERT_TRUE(leases_.request(LeaseRequestId{i + 3}, driver_of(7), kOneCpu).ok());
  const auto refused = leases_.request(LeaseRequestId{~0ull}, driver_of(7), kOneCpu);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(leases_.waiting(), Leases::kWaitingMax);
}

// The rules again, with no thought of speed: one list of requests in the order in which they came, one of workers.
// ---- Demands of other shapes

Resources of(const std::string& text) {
  return *Resources::parse(text);
}

class ShapedLeasesTest : public LeasesTest {
 protected:
  ShapedLeasesTest() { leases_ = Leases{of("cpu=2,gpu=2"), kWorkersMax, kIdleTime}; }
  LeaseEffects ask(std::uint64_t id, const std::string& demand) {
    return *leases_.request(LeaseRequestId{id}, driver_of(7), of(demand));
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
  EXPECT_EQ(texts(leases_.reserve(ReservationId{9}, {of("cpu=2"), {}})), Texts{});
  EXPECT_EQ(returned(50), (Texts{"reserved 9"}));
  EXPECT_EQ(texts(leases_.release(ReservationId{9})), (Texts{"grant 2 worker 50"}));
}

TEST_F(ShapedLeasesTest, AReservationWaitsForTheVeryGpuThatItWasGiven) {
  ask(1, "gpu=1");
  started(1, 50);
  EXPECT_EQ(texts(leases_.reserve(ReservationId{9}, {of("gpu=1"), {{0, 10'000}}})), Texts{});
  EXPECT_EQ(texts(leases_.reserve(ReservationId{10}, {of("gpu=1"), {{1, 10'000}}})), Texts{})
      << "one GPU is free, and 9 came first";
  returned(50);
  EXPECT_EQ(texts(leases_.worker_ended(WorkerId{50})), (Texts{"reserved 9", "reserved 10"}));
}

TEST_F(ShapedLeasesTest, AReservationThatIsGivenUpWhileItWaitsTakesNothing) {
  ask(1, "gpu=2");
  leases_.reserve(ReservationId{9}, {of("gpu=1"), {{0, 10'000}}});
  leases_.release(ReservationId{9});
  leases_.start_failed(LeaseRequestId{1});
  EXPECT_EQ(leases_.left(), leases_.total());
}

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
    std::optional<std::pair<TimePoint, std::uint64_t>> idle_since;  // and the how manieth to become idle
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
    std::vector<std::uint64_t> to_start;  // that Leases asked to start, ended jobs' too

    for (int step = 0; step < 200; ++step) {
      now += Duration{between(0, 3'000'000'000)};
      const auto any_worker = [&]() -> std::uint64_t {
        if (model.workers.empty() || chance(20)) return ++last_id;  // one that is not known
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
        effects = *leases.request(LeaseRequestId{id}, driver_of(job), kOneCpu);
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
