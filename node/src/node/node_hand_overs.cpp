// Sockets on their way to workers. scheduler::HandOvers says how many may be on their way at once.

#include "node/node_records.hpp"

namespace pharos::node {

/// Returns false if too many wait.
bool Node::hand_over(WorkerId worker, MakeServed make) {
  const std::uint64_t number = ++last_number_;
  const auto turn = hand_overs_.add(worker, number, executor_.now());
  if (turn == scheduler::HandOvers::Turn::kRefused) return false;
  waiting_hand_overs_.emplace(number, HandOver{worker, std::move(make)});
  if (turn == scheduler::HandOvers::Turn::kNow) {
    begin_hand_over(number);
  } else {
    look_for_slow_workers();
  }
  return true;
}

void Node::begin_hand_over(std::uint64_t number) {
  auto waited = waiting_hand_overs_.extract(number);
  if (waited.empty()) return;  // the node is closed
  HandOver& next = waited.mapped();
  auto worker = find_worker(next.worker);
  if (worker != nullptr && worker->control == nullptr) worker = nullptr;
  auto served = next.make(worker);
  if (!served) return end_hand_over(next.worker);
  background_.spawn(serve(this, std::move(worker), *std::move(served)));
}

// Sends the socket and waits until the worker says that it has it. If the worker has died, the request ends with its
// connection.
async::Async<void> Node::serve(Node* self, std::shared_ptr<Worker> worker, Served served) {
  std::vector<Fd> descriptors;
  descriptors.push_back(std::move(served.socket));
  wire::Message ask = std::move(served.serve);
  [[maybe_unused]] const auto taken =
      co_await worker->control->request(std::move(ask), std::move(descriptors), async::Deadline::never());
  self->end_hand_over(worker->id);
}

void Node::end_hand_over(WorkerId worker) {
  begin_hand_overs(hand_overs_.taken(worker, executor_.now()));
}

void Node::begin_hand_overs(const std::vector<std::uint64_t>& numbers) {
  for (const std::uint64_t number : numbers) {
    executor_.post([this, number] { begin_hand_over(number); });
  }
}

void Node::look_for_slow_workers() {
  if (hand_overs_.waiting() == 0 || std::exchange(looks_for_slow_workers_, true)) return;
  executor_.run_at(executor_.now() + scheduler::HandOvers::kSlowTime, [this] {
    looks_for_slow_workers_ = false;
    begin_hand_overs(hand_overs_.tick(executor_.now()));
    look_for_slow_workers();
  });
}

/// Connects a worker with a user of this machine. Returns the worker's end; nullopt if no connection could be made.
std::optional<Node::Served> Node::connect(const Worker& worker, const Client& user, std::uint64_t request,
                                          const wire::ActorAlive& alive, wire::WorkerResources holding) {
  auto pair = host_.make_connection();
  if (!pair) {
    user.peer->respond(request, std::move(pair).error());
    return std::nullopt;
  }
  std::vector<Fd> to_user;
  to_user.push_back(std::move(pair->second));
  user.peer->respond(request,
                     wire::WorkerReady{worker.id, worker.actor, worker.incarnation, worker.pid, alive.max_task_retries,
                                       false, alive.ended, alive.out_of_memory},
                     std::move(to_user));
  return Served{{user.caller, worker.actor, worker.incarnation, false, std::move(holding)}, std::move(pair->first)};
}

}  // namespace pharos::node
