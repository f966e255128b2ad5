#include "leases/elsewhere.hpp"

#include <chrono>
#include <utility>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 10ms;    // with a full node, before other nodes are asked for room
constexpr Duration kRoundTime = 100ms;  // between two rounds of asking for lines that found no room

}  // namespace

Elsewhere::Elsewhere(async::Executor& executor, Waits waits, Ask ask)
    : executor_{executor}, ask_{std::move(ask)}, overflow_{std::move(waits)} {}

void Elsewhere::add(const scheduler::Demand& demand, scheduler::LeaseRequestId request) {
  overflow_.add(demand, request);
  begin_rounds();
  if (std::exchange(looks_, true)) return;
  executor_.run_at(executor_.now() + kPatience, [this] {
    looks_ = false;
    look();
  });
}

void Elsewhere::begin_rounds() {
  if (std::exchange(has_rounds_, true)) return;
  executor_.run_at(executor_.now() + kRoundTime, [this] {
    has_rounds_ = false;
    overflow_.begin_round();
    look();
    if (!overflow_.empty()) begin_rounds();
  });
}

void Elsewhere::look() {
  while (const auto request = overflow_.next()) ask_(*request);
}

}  // namespace pharos::node
