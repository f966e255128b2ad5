#include "caller/task_pools.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <pharos/async/sleep.hpp>
#include <pharos/scheduler/resources.hpp>

#include "caller/pending_calls.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::Placeholder;
using detail::ResultCell;

constexpr auto kReasonTime = 1s;  // for the node to say why a worker ended
constexpr auto kTendTime = 20ms;
constexpr const char* kRunAgain = "If the task may run twice, give it max_retries.";

}  // namespace

Result<std::shared_ptr<TaskPool>> TaskPools::pool_of(const TaskOptions& options) {
  const bool says_nothing = options.cpus == 1 && options.gpus == 0 && options.memory == ByteCount{} &&
                            options.resources.empty() && options.labels.empty() && !options.node && !options.near &&
                            !options.spread && options.prefer.empty() && options.env.empty() && !options.group.id();
  // Without a count of its users, which all threads would share. This pool lives as long as this object.
  const auto by_default = [this] { return std::shared_ptr<TaskPool>{std::shared_ptr<void>{}, tasks_.get()}; };
  if (says_nothing) return by_default();
  PHAROS_TRY(Shape shape, Shape::of(options));
  if (shape == tasks_->shape()) return by_default();
  const std::lock_guard lock{mutex_};
  if (const auto why = line_->over()) return *why;
  if (const auto found = others_.find(shape); found != others_.end()) return found->second;
  const auto has_group = [](const auto& entry) { return bool{entry.first.demand.group}; };
  const bool counts = !shape.demand.group && others_.size() >= kShapesMax;
  if (counts && others_.size() - std::ranges::count_if(others_, has_group) >= kShapesMax) {
    return Error{ErrorCode::kOverloaded,
                 "this program has tasks with " + std::to_string(kShapesMax) +
                     " different combinations of resources, labels and nodes, which is the limit",
                 "Use fewer different values in TaskOptions, for example rounded ones."};
  }
  auto pool = std::make_shared<TaskPool>(*this, line_->executor(), shape);
  pool->set_requests_max(line_->registered().cpus);
  return others_.emplace(std::move(shape), std::move(pool)).first->second;
}

std::vector<std::shared_ptr<TaskPool>> TaskPools::all() {
  std::vector all{tasks_};
  const std::lock_guard lock{mutex_};
  for (const auto& [shape, pool] : others_) all.push_back(pool);
  return all;
}

// A task has its pool until it has its result, and so have the recipes of results.
void TaskPools::forget_ended_groups() {
  std::vector<std::shared_ptr<OutgoingCalls::Observer>> ended;  // destroyed after the lock
  const std::lock_guard lock{mutex_};
  std::erase_if(others_, [&](const auto& entry) {
    const auto& [shape, pool] = entry;
    const auto observer = observers_.find(pool.get());
    const long own = observer == observers_.end() ? 1 : 2;
    if (!shape.demand.group || pool.use_count() != own || pool->tend()) return false;
    if (observer != observers_.end()) {
      ended.push_back(std::move(observer->second));
      observers_.erase(observer);
    }
    return true;
  });
}

// While the pool of a group is kept here, its observer is, so that answers which come late find it. It keeps the pool,
// too. The other pools live as long as this object.
std::shared_ptr<OutgoingCalls::Observer> TaskPools::observer_of(const std::shared_ptr<TaskPool>& pool) {
  if (!pool->shape().demand.group) return {shared_from_this(), pool.get()};
  const std::lock_guard lock{mutex_};
  if (line_->over()) return nullptr;
  auto& observer = observers_[pool.get()];
  if (observer == nullptr) {
    using Both = std::pair<std::shared_ptr<TaskPools>, std::shared_ptr<TaskPool>>;
    observer = {std::make_shared<Both>(shared_from_this(), pool), pool.get()};
  }
  return observer;
}

bool TaskPools::take_back(ResultCell& cell) {
  const auto pools = all();
  return std::any_of(pools.begin(), pools.end(), [&](const auto& pool) {
    // A task that asks for more than CPUs must run where its resources are.
    return pool->shape().fits_anywhere() && pool->take_back(cell);
  });
}

Result<std::shared_ptr<TaskPool>> TaskPools::pool_near(TaskOptions options, const std::vector<Placeholder>& arguments) {
  const bool says_where =
      options.node || options.near || options.spread || !options.prefer.empty() || options.group.id();
  if (says_where) return pool_of(options);
  const TaskOptions anywhere = options;
  options.near = PendingCalls::worth_going_to(arguments, line_->registered().node);
  auto pool = pool_of(options);
  return pool ? pool : pool_of(anywhere);
}

void TaskPools::request_lease(TaskPool& pool) {
  line_->spawn(lease_worker(std::static_pointer_cast<TaskPool>(pool.shared_from_this())));
}

async::Async<void> TaskPools::lease_worker(std::shared_ptr<TaskPool> pool) {
  begin_to_tend();
  wire::Message ask = wire::LeaseWorker{pool->shape().to_wire()};
  // Without a deadline: tasks have deadlines of their own, and the wait ends with the node or with the caller.
  auto parcel = co_await line_->request(std::move(ask));
  if (!parcel) {
    pool->lease_refused(std::move(parcel).error().with("asking for a worker"));
    co_return;
  }
  const auto* const ready = std::get_if<wire::WorkerReady>(&parcel->message);
  if (ready == nullptr) {
    pool->lease_refused({ErrorCode::kInternal, "the node answered the request for a lease with an unexpected message"});
    co_return;
  }
  const WorkerId worker = ready->worker;
  const auto calls = connector_->open(observer_of(pool));
  connector_->connect(*calls, *std::move(parcel), "the worker");
  pool->add_worker(worker, calls);
}

void TaskPools::tend_soon() {
  line_->executor().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->begin_to_tend();
  });
}

void TaskPools::begin_to_tend() {
  if (!std::exchange(tends_tasks_, true)) line_->spawn(tend_tasks());
}

async::Async<void> TaskPools::tend_tasks() {
  for (;;) {
    bool more = false;
    for (const auto& pool : all()) more = pool->tend() || more;
    forget_ended_groups();
    if (!more) break;
    const auto slept = co_await async::sleep(kTendTime);
    if (!slept) break;
  }
  tends_tasks_ = false;
}

void TaskPools::return_lease(WorkerId worker) {
  line_->send_now(wire::ReturnLease{worker});
}

void TaskPools::kill_worker(WorkerId worker) {
  line_->send_now(wire::ReturnLease{.worker = worker, .kill = true});
}

void TaskPools::give_back(const wire::RecallLeases& recalled) {
  std::size_t left = recalled.count;
  for (const auto& pool : all()) left -= pool->recall(recalled.workers, left);
}

void TaskPools::worker_disconnected(WorkerId worker) {
  line_->spawn(give_up_on_worker(worker));
}
// The node says why the worker ended (WorkerEnded). Only if it has not done so in time, this gives the worker up. The
// worker may still live, if it is on another machine and only the connection broke.
async::Async<void> TaskPools::give_up_on_worker(WorkerId worker) {
  const auto slept = co_await async::sleep(kReasonTime);
  if (!slept) co_return;
  for (const auto& pool : all()) {
    if (pool->lose_worker(worker, Error{ErrorCode::kWorkerDied, "the worker's connection ended", kRunAgain})) {
      line_->send_now(wire::ReturnLease{worker, {}, true});
    }
  }
}

void TaskPools::lose_worker(const wire::WorkerEnded& ended) {
  for (const auto& pool : all()) {
    pool->lose_worker(ended.worker, Error{ended.out_of_memory ? ErrorCode::kExhausted : ErrorCode::kWorkerDied,
                                          "the worker that ran the task ended: " + ended.reason,
                                          ended.out_of_memory ? scheduler::kMemoryRemedy : kRunAgain});
  }
}

bool TaskPools::cancel(ResultCell& cell) {
  const auto pools = all();
  return std::any_of(pools.begin(), pools.end(), [&](const auto& pool) { return pool->cancel(cell); });
}

void TaskPools::end_by_force(const ResultCell& cell) {
  for (const auto& pool : all()) pool->end_by_force(cell);
}

std::optional<TaskPools::Place> TaskPools::find(const ResultCell& cell) {
  for (const auto& pool : all()) {
    if (const auto place = pool->find(cell)) return Place{*place, pool->shape()};
  }
  return std::nullopt;
}

void TaskPools::close(const Error& why) {
  for (const auto& pool : all()) pool->close(why);
  std::map<const TaskPool*, std::shared_ptr<OutgoingCalls::Observer>> observers;  // destroyed after the lock
  const std::lock_guard lock{mutex_};
  observers.swap(observers_);
}

}  // namespace pharos::actors
