#pragma once

#include <memory>

#include <pharos/async/async.hpp>
#include <pharos/base/result.hpp>
#include <pharos/scheduler/environment.hpp>

#include "leases/lease_book.hpp"
#include "node/site.hpp"
#include "workers/jobs.hpp"

namespace pharos::node {

/// Returns the zygote of the job with this environment. Where the node has no room for another environment
/// (Zygotes::kOthersMax), ends the idle workers of others, and waits up to 10 s until one of them has no worker; then
/// kOverloaded. The arguments must outlive it, and it runs on the node's strand.
async::Async<Result<std::shared_ptr<Zygote>>> find_zygote(Site* site, LeaseBook* book, Jobs* jobs,
                                                          std::shared_ptr<Job> job, scheduler::Environment environment);

}  // namespace pharos::node
