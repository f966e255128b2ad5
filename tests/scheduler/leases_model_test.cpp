#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "leases_fixture.hpp"
#include "seed.hpp"

namespace pharos::scheduler {
namespace {

// A simple model of the same rules, without regard for speed: a list of requests in the order of arrival, and one of
// workers.
class ModelLeases {
 public:
  ModelLeases(std::uint32_t cpus, std::uint32_t workers_max) : cpus_{cpus}, workers_max_{workers_max} {}

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
    ModelLeases model{cpus, workers_max};
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
                                      [](const ModelLeases::Worker& w) { return w.idle_since.has_value(); });
      ASSERT_EQ(leases.idle(), static_cast<std::size_t>(idle)) << "step " << step;
    }
    for (std::uint64_t job = 1; job <= jobs; ++job) leases.job_ended(JobId{job});
    ASSERT_EQ(in_use(leases), 0u);
    ASSERT_EQ(leases.waiting(), 0u);
    ASSERT_EQ(leases.idle(), 0u);
  }
};

TEST_F(LeasesAgainstTheModel, DoesTheSameInTwoThousandRandomRuns) {
  for_seeds(2000, [this](std::uint64_t seed) { run(seed); });
}

}  // namespace
}  // namespace pharos::scheduler
