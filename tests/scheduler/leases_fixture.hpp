#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include <pharos/scheduler/leases.hpp>

namespace pharos::scheduler {

using namespace std::chrono_literals;

inline constexpr auto kIdleTime = 10s;

/// The effect as text, so that a failed test shows a readable difference.
inline std::string to_text(const LeaseEffect& effect) {
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

using Texts = std::vector<std::string>;
inline Texts texts(const LeaseEffects& effects) {
  Texts result;
  for (const LeaseEffect& effect : effects) result.push_back(to_text(effect));
  return result;
}

inline constexpr std::uint32_t kWorkersMax = 6;
inline const Resources kOneCpu = Resources::of_cpus(1);

inline std::uint32_t in_use(const Leases& leases) {
  return static_cast<std::uint32_t>((leases.total().cpus() - leases.left().cpus()) / Resources::kWhole);
}

/// A job's driver is the caller with the job's number; callers with higher numbers are workers.
inline Lessee driver_of(std::uint64_t job) {
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

}  // namespace pharos::scheduler
