#include "workers/hand_over_line.hpp"

#include <utility>

namespace pharos::node {

bool HandOverLine::add(WorkerId worker, Make make) {
  const std::uint64_t number = site_.head.next_number();
  const auto turn = hand_overs_.add(worker, number, site_.executor.now());
  if (turn == scheduler::HandOvers::Turn::kRefused) return false;
  waiting_.emplace(number, HandOver{worker, std::move(make)});
  if (turn == scheduler::HandOvers::Turn::kNow) {
    begin(number);
  } else {
    look_for_slow_workers();
  }
  return true;
}

void HandOverLine::begin(std::uint64_t number) {
  auto waited = waiting_.extract(number);
  if (waited.empty()) return;  // the node is closed
  HandOver& next = waited.mapped();
  auto worker = find_(next.worker);
  if (worker != nullptr && worker->control == nullptr) worker = nullptr;
  auto served = next.make(worker);
  if (!served) return end(next.worker);
  site_.background.spawn(serve(std::move(worker), *std::move(served)));
}

// Sends the socket and waits until the worker says that it has it. If the worker has died, the request ends with its
// connection.
async::Async<void> HandOverLine::serve(std::shared_ptr<Worker> worker, Served served) {
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(served.socket));
  wire::Message ask = std::move(served.serve);
  [[maybe_unused]] const auto taken =
      co_await worker->control->request(std::move(ask), std::move(descriptors), async::Deadline::never());
  end(worker->id);
}

void HandOverLine::end(WorkerId worker) {
  begin_later(hand_overs_.taken(worker, site_.executor.now()));
}

void HandOverLine::begin_later(const std::vector<std::uint64_t>& numbers) {
  for (const std::uint64_t number : numbers) {
    site_.executor.post([this, number] { begin(number); });
  }
}

void HandOverLine::look_for_slow_workers() {
  if (hand_overs_.waiting() == 0 || std::exchange(looks_for_slow_workers_, true)) return;
  site_.executor.run_at(site_.executor.now() + scheduler::HandOvers::kSlowTime, [this] {
    looks_for_slow_workers_ = false;
    begin_later(hand_overs_.tick(site_.executor.now()));
    look_for_slow_workers();
  });
}

std::optional<HandOverLine::Served> connect(Host& host, const Worker& worker, const Client& user, std::uint64_t request,
                                            const wire::ActorAlive& alive, wire::WorkerResources holding) {
  auto pair = host.make_connection();
  if (!pair) {
    user.peer->respond(request, std::move(pair).error());
    return std::nullopt;
  }
  std::vector<Fd> to_user;
  to_user.push_back(std::move(pair->second));
  const Incarnation& runs = worker.incarnation;
  user.peer->respond(request,
                     wire::WorkerReady{.worker = worker.id,
                                       .actor = runs.actor,
                                       .incarnation = runs.number,
                                       .pid = worker.process.pid,
                                       .max_task_retries = alive.max_task_retries,
                                       .ended = alive.ended,
                                       .out_of_memory = alive.out_of_memory},
                     std::move(to_user));
  return HandOverLine::Served{{user.caller, runs.actor, runs.number, false, std::move(holding)},
                              std::move(pair->first)};
}

}  // namespace pharos::node
