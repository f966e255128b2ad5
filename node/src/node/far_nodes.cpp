#include "node/far_nodes.hpp"

#include <chrono>
#include <utility>

#include "node/descriptions.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kHeadTime = 10s;  // for the head to answer
constexpr auto kConnectTime = 3s;

}  // namespace

FarNodes::FarNodes(async::Executor& executor, Host& host, ToHead& head, NodeId here, std::string head_address)
    : executor_{executor}, host_{host}, head_{head}, here_{here}, head_address_{std::move(head_address)} {}

async::Async<Result<std::string>> FarNodes::find(NodeId node) {
  const std::uint64_t number = head_.next_number();
  async::Completion<std::string> found;
  questions_.emplace(number, Question{node, found});
  head_.tell(wire::FindNode{node, number});
  auto address = co_await found.wait(async::Deadline::after(kHeadTime, executor_.now()));
  questions_.erase(number);
  if (address && address->empty()) co_return head_address_;
  co_return address;
}

async::Async<Result<Fd>> FarNodes::connect(NodeId node, std::string address, Introduction introduction) {
  const auto deadline = async::Deadline::after(kConnectTime, executor_.now());
  const std::string place = address.empty() ? head_address_ : address;
  auto socket = co_await host_.reach(place, introduction, deadline);
  if (socket) co_return socket;
  co_return Error{ErrorCode::kUnavailable,
                  describe_node(node, address) + ", cannot be reached from node " + to_string(here_) + ": " +
                      socket.error().message(),
                  "Check the network between the two nodes."};
}

void FarNodes::on_found(const wire::NodeFound& found) {
  if (auto asked = questions_.extract(found.number); !asked.empty()) asked.mapped().found.complete(found.address);
}

void FarNodes::on_refused(const wire::Refused& refused) {
  if (auto asked = questions_.extract(refused.number); !asked.empty()) asked.mapped().found.fail(refused.why);
}

void FarNodes::ask_again() {
  for (const auto& [number, asked] : questions_) head_.tell(wire::FindNode{asked.node, number});
}

}  // namespace pharos::node
