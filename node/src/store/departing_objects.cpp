#include "store/departing_objects.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include <pharos/base/log.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnswerTime = 30s;
constexpr std::uint64_t kBytesOfSecond = 10'000'000;  // of a slow network, which the other node may have to share

/// How long a node may take to fetch an object.
Duration time_for(std::uint64_t bytes) {
  return kAnswerTime + std::chrono::seconds{bytes / kBytesOfSecond};
}

}  // namespace

DepartingObjects::DepartingObjects(async::Executor& executor, ExportedObjects& exports)
    : executor_{executor}, exports_{exports}, background_{executor} {}

void DepartingObjects::go_on() {
  if (movers_ != 0) return;
  std::ranges::move(exports_.claimed(), std::back_inserter(waiting_));
  for (; movers_ < std::min(kMovesMax, waiting_.size()); ++movers_) background_.spawn(move_waiting());
}

async::Async<void> DepartingObjects::move_waiting() {
  while (!waiting_.empty()) {
    ExportedObjects::Claimed next = std::move(waiting_.front());
    waiting_.pop_front();
    co_await move(std::move(next));
  }
  --movers_;
}

async::Async<void> DepartingObjects::move(ExportedObjects::Claimed object) {
  if (exports_.moved_to(object.object.id) == nullptr) {
    const auto taker = std::ranges::min_element(object.nodes, {}, [this](NodeId node) { return bytes_[node]; });
    const NodeId node = *taker;
    object.nodes.erase(taker);
    co_await give(node, object);
  }
  const Location* const there = exports_.moved_to(object.object.id);
  if (there == nullptr) co_return;
  const Location to = *there;
  for (const NodeId node : object.nodes) co_await tell(node, object.object, to);
}

async::Async<void> DepartingObjects::give(NodeId node, ExportedObjects::Claimed object) {
  bytes_[node] += object.bytes;  // also if it refuses, so that another node is asked next time
  const auto link = exports_.link_to(node);
  if (link == nullptr) co_return;
  wire::Message ask = wire::TakeObject{object.object};
  const auto answer = co_await link->request(std::move(ask), std::vector<Fd>{},
                                             async::Deadline::after(time_for(object.bytes), executor_.now()));
  const auto* const there = answer ? std::get_if<wire::ObjectImported>(&answer->message) : nullptr;
  if (there != nullptr && there->object.id == object.object.id && there->object.node == node) {
    ++taken_;
    co_return exports_.note_moved(node, object.object.id, there->object);
  }
  const ErrorCode why = answer ? ErrorCode::kCorrupt : answer.error().code();
  if (why == ErrorCode::kCancelled) co_return;  // this node ends
  // The node needs the object no more, or has taken it and the answer was lost.
  if (why == ErrorCode::kNotFound) co_return exports_.end_claim(node, object.object.id);
  log(LogLevel::kWarn, "this node drains, and another node could not take an object",
      {kv("object", object.object.id), kv("node", node),
       kv("why", answer ? std::string{"its answer makes no sense"} : answer.error().message())});
}

async::Async<void> DepartingObjects::tell(NodeId node, Location object, Location to) {
  const auto link = exports_.link_to(node);
  if (link == nullptr) co_return;
  wire::Message ask = wire::ObjectMoved{object, to};
  const auto answer = co_await link->request(std::move(ask), std::vector<Fd>{},
                                             async::Deadline::after(2 * kAnswerTime, executor_.now()));
  if (answer) co_return exports_.note_moved(node, object.id, to);
  const ErrorCode why = answer.error().code();
  if (why == ErrorCode::kCancelled) co_return;
  if (why == ErrorCode::kNotFound) co_return exports_.end_claim(node, object.id);
  exports_.forget_move(object.id);
}

}  // namespace pharos::node
