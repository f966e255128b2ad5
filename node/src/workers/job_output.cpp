#include "workers/job_output.hpp"

namespace pharos::node {

bool JobOutput::takes(const Job& job) {
  return (job.driver != nullptr ? job.unshown.bytes() : queued_to_head_()) < kQueuedMax;
}

void JobOutput::send(Job& job, wire::Output output) {
  if (job.driver == nullptr) return head_.tell(std::move(output));
  job.unshown.add(output.lines.size());
  job.driver->send(output);
}

void JobOutput::send_far(Job& job, const wire::Output& output) {
  if (job.driver != nullptr && job.unshown.bytes() < kFarUnshownMax) send(job, output);
}

}  // namespace pharos::node
