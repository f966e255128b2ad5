#include "leases/environments.hpp"

#include <chrono>

#include <pharos/async/deadline.hpp>
#include <pharos/async/sleep.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kRoomTime = 10s;
constexpr auto kLookTime = 10ms;

}  // namespace

async::Async<Result<std::shared_ptr<Zygote>>> find_zygote(Site* site, LeaseBook* book, Jobs* jobs,
                                                          std::shared_ptr<Job> job,
                                                          scheduler::Environment environment) {
  const auto deadline = async::Deadline::after(kRoomTime, site->executor.now());
  for (;;) {
    auto found = jobs->zygote_of(job, environment);
    const bool has_no_room = !found && found.error().code() == ErrorCode::kOverloaded;
    if (!has_no_room || job->ended() || deadline.expired(site->executor.now())) co_return found;
    book->tell_all([](scheduler::Leases& leases) { return leases.end_idle_in_environments(); });
    PHAROS_CO_TRY_VOID(co_await async::sleep(kLookTime));
  }
}

}  // namespace pharos::node
