// What people ask: of this node, by way of it of another one, or of the head.

#include <chrono>

#include "node_records.hpp"
#include "rows.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kOtherNodeTime = 8s;  // less than whoever asks waits
constexpr std::size_t kPassedOnMax = 64;

}  // namespace

bool Node::on_question(const Client& client, wire::Message& message, std::uint64_t request) {
  if (std::holds_alternative<wire::Inspect>(message)) {
    client.peer->respond(request, wire::Inspected{.store = inspect_store()});
  } else if (auto* const list = std::get_if<wire::ListRows>(&message)) {
    if (!list->node) {
      list->number = ++last_number_;
      asked_.emplace(list->number, Asked{.client = client, .request = request, .question = *list});
      tell_head(std::move(*list));
    } else if (is_answered_here(client, *list, request)) {
      list_own(client, *list, request);
    }
  } else if (auto* const read = std::get_if<wire::ReadLog>(&message)) {
    if (is_answered_here(client, *read, request)) {
      logs_.read(*read, [peer = client.peer, request](Result<wire::LogPart> part) {
        if (part) {
          peer->respond(request, *std::move(part));
        } else {
          peer->respond(request, std::move(part).error());
        }
      });
    }
  } else if (auto* const drain = std::get_if<wire::DrainNode>(&message)) {
    drain->number = ++last_number_;
    asked_.emplace(drain->number, Asked{.client = client, .request = request, .question = *drain});
    tell_head(std::move(*drain));
  } else if (std::holds_alternative<wire::EndNode>(message) && end_) {
    client.peer->respond(request, wire::Done{});
    end_();
  } else {
    return false;
  }
  return true;
}

void Node::list_own(const Client& client, const wire::ListRows& asked, std::uint64_t request) {
  if (asked.table != "logs") {
    client.peer->respond(
        request, Error{ErrorCode::kInvalidArgument, "a node has no list of \"" + asked.table + "\"", "It has logs."});
    return;
  }
  auto rows = select_rows(logs_.list(), asked);
  if (rows) {
    client.peer->respond(request, *std::move(rows));
  } else {
    client.peer->respond(request, std::move(rows).error());
  }
}

/// Else it is passed on, or refused.
template <class Question>
bool Node::is_answered_here(const Client& client, Question& question, std::uint64_t request) {
  if (!question.node || question.node == settings_.id) return true;
  if (question.passed_on) {
    client.peer->respond(request, Error{ErrorCode::kUnavailable, "the node has ended; another one is at its address"});
  } else if (passed_on_ >= kPassedOnMax) {
    client.peer->respond(request,
                         Error{ErrorCode::kOverloaded, "too much is asked of other nodes at once", "Try again."});
  } else {
    question.passed_on = true;
    background_.spawn(pass_on(this, client.peer, request, question.node, question));
  }
  return false;
}

async::Async<void> Node::pass_on(Node* self, std::shared_ptr<net::Peer> from, std::uint64_t request, NodeId to,
                                 wire::Message question) {
  ++self->passed_on_;
  auto answer = co_await ask_node(self, to, std::move(question));
  --self->passed_on_;
  if (answer) {
    from->respond(request, answer->message);
  } else {
    from->respond(request, std::move(answer).error().with("asking node " + to_string(to)));
  }
}

async::Async<Result<net::Parcel>> Node::ask_node(Node* self, NodeId node, wire::Message question) {
  const auto deadline = async::Deadline::after(kOtherNodeTime, self->executor_.now());
  PHAROS_CO_TRY(std::string address, co_await find_node(self, node));
  const Introduction introduction{.purpose = Introduction::Purpose::kAsk};
  PHAROS_CO_TRY(Fd socket, co_await self->host_.reach(std::move(address), introduction, deadline));
  const auto peer = self->add_client(self->host_.make_link(std::move(socket), net::Descriptors::kRefused));
  auto answer = co_await peer->request(std::move(question), std::vector<Fd>{}, deadline);
  self->clients_.erase(peer.get());
  peer->close();
  co_return answer;
}

}  // namespace pharos::node
