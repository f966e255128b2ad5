#include "users/worker_inspection.hpp"

namespace pharos::node {

async::Async<void> inspect_worker(std::shared_ptr<WorkerInspection> inspection, std::shared_ptr<Worker> worker,
                                  async::Deadline deadline) {
  wire::Message ask = wire::Inspect{};
  const auto answer = co_await worker->control->request(std::move(ask), std::vector<Fd>{}, deadline);
  const auto* const inspected = answer ? std::get_if<wire::Inspected>(&answer->message) : nullptr;
  if (inspected != nullptr && inspected->workers.size() == 1) {
    const wire::InspectedWorker& told = inspected->workers.front();
    for (wire::InspectedWorker& entry : inspection->answer.workers) {
      if (entry.worker != worker->id) continue;
      entry.answered = true;
      entry.function = told.function;
      entry.nanoseconds = told.nanoseconds;
      entry.caller = told.caller;
      entry.number = told.number;
      entry.waits = told.waits;
      entry.may_run_again = told.may_run_again;
    }
  }
  inspection->take_one();
}

}  // namespace pharos::node
