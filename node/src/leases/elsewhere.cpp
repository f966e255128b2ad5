#include "leases/elsewhere.hpp"

#include <chrono>
#include <utility>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kWaitBeforeAsking = 10ms;  // with a full node, before other nodes are asked for room
constexpr Duration kRoundTime = 100ms;        // between two rounds of asking for requests that found no room

}  // namespace

Elsewhere::Elsewhere(async::Executor& executor, Waits waits, Ask ask)
    : executor_{executor}, ask_{std::move(ask)}, remote_requests_{std::move(waits)} {}

void Elsewhere::add(const scheduler::Demand& demand, scheduler::LeaseRequestId request) {
  remote_requests_.add(demand, request);
  begin_rounds();
  if (std::exchange(looks_, true)) return;
  executor_.run_at(executor_.now() + kWaitBeforeAsking, [this] {
    looks_ = false;
    look();
  });
}

void Elsewhere::begin_rounds() {
  if (std::exchange(has_rounds_, true)) return;
  executor_.run_at(executor_.now() + kRoundTime, [this] {
    has_rounds_ = false;
    remote_requests_.begin_round();
    look();
    if (!remote_requests_.empty()) begin_rounds();
  });
}

void Elsewhere::look() {
  while (const auto request = remote_requests_.next()) ask_(*request);
}

}  // namespace pharos::node
