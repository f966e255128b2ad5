#include "users/user_questions.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "head/rows.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kOtherNodeTime = 8s;  // for another node to answer; less than the asking user waits

template <class Answer>
void respond(net::Peer& to, std::uint64_t request, Result<Answer> answer) {
  if (answer) {
    to.respond(request, *std::move(answer));
  } else {
    to.respond(request, std::move(answer).error());
  }
}

}  // namespace

void UserQuestions::list(const Client& client, wire::ListRows asked, std::uint64_t request) {
  if (!asked.node) {
    ask_head(client, std::move(asked), request);
  } else if (is_answered_here(client, asked, request)) {
    list_own(client, asked, request);
  }
}

void UserQuestions::read_log(const Client& client, wire::ReadLog asked, std::uint64_t request) {
  if (!is_answered_here(client, asked, request)) return;
  logs_.read(asked,
             [peer = client.peer, request](Result<wire::LogPart> part) { respond(*peer, request, std::move(part)); });
}

void UserQuestions::list_own(const Client& client, const wire::ListRows& asked, std::uint64_t request) {
  const std::string& table = asked.table;
  const auto answer = [&](wire::Rows all) { respond(*client.peer, request, select_rows(std::move(all), asked)); };
  if (ProcessListing::has(table)) return processes_.answer(client.peer, asked, request);
  if (table == "gpus") return gpus_.answer(client.peer, asked, request);
  if (table == "clock") return answer(clock_here());
  if (table == "logs") return answer(logs_.list());
  if (table == "memory") return answer(objects_.sum_up());
  if (table == "objects") return answer(objects_.list());
  client.peer->respond(request, Error{ErrorCode::kInvalidArgument, "a node has no list of \"" + table + "\"",
                                      "It has clock, gpus, logs, memory, objects, stacks, tasks and workers."});
}

wire::Rows UserQuestions::clock_here() const {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return {{"node", "microseconds"},
          {{to_string(site_.settings.id),
            std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count())}},
          0,
          0};
}

/// Returns true if the question is about this node. Otherwise passes the question on to its node, or refuses it.
template <class Question>
bool UserQuestions::is_answered_here(const Client& client, Question& question, std::uint64_t request) {
  if (!question.node || question.node == site_.settings.id) return true;
  if (question.passed_on) {
    client.peer->respond(request,
                         Error{ErrorCode::kUnavailable, "the node has ended, and another node uses its address"});
  } else if (passed_on_ >= kPassedOnMax) {
    client.peer->respond(
        request, Error{ErrorCode::kOverloaded, "too many questions are being passed on to other nodes", "Try again."});
  } else {
    question.passed_on = true;
    site_.background.spawn(pass_on(client.peer, request, question.node, question));
  }
  return false;
}

async::Async<void> UserQuestions::pass_on(std::shared_ptr<net::Peer> from, std::uint64_t request, NodeId to,
                                          wire::Message question) {
  ++passed_on_;
  auto answer = co_await ask(to, std::move(question));
  --passed_on_;
  if (answer) {
    from->respond(request, answer->message);
  } else {
    from->respond(request, std::move(answer).error().with("asking node " + to_string(to)));
  }
}

async::Async<Result<net::Parcel>> UserQuestions::ask(NodeId node, wire::Message question) {
  const auto deadline = async::Deadline::after(kOtherNodeTime, site_.executor.now());
  PHAROS_CO_TRY(std::string address, co_await far_nodes_.find(node));
  const Introduction introduction{.purpose = Introduction::Purpose::kAsk};
  PHAROS_CO_TRY(Fd socket, co_await site_.host.reach(std::move(address), introduction, deadline));
  const auto peer = clients_.add(std::move(socket), net::Descriptors::kRefused);
  auto answer = co_await peer->request(std::move(question), std::vector<Fd>{}, deadline);
  clients_.erase(*peer);
  peer->close();
  co_return answer;
}

}  // namespace pharos::node
