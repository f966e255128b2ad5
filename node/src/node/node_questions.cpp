// Questions of users. A question is about this node, about another node that is asked by way of this one, or about the
// head.

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "head/rows.hpp"
#include "node/node_records.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kOtherNodeTime = 8s;  // for another node to answer; less than the asking user waits
constexpr std::size_t kPassedOnMax = 64;
constexpr auto kExplainTime = 1500ms;    // for a process to say what it does
constexpr auto kStacksTime = 3s;         // to read stacks: 2 s, and the time to read the symbols of a large program
constexpr auto kLookTime = 3s;           // after which no further process is looked at
constexpr std::size_t kLookedAtMax = 4;  // processes at once: each costs another process that reads symbols
constexpr std::size_t kStacksMax = std::size_t{3} << 20;  // bytes in an answer

// Columns of the table of stacks.
enum Column : std::size_t { kId, kWhat, kActor, kNode, kPid, kRuns, kSeconds, kWaits, kStacks };

std::string seconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(nanoseconds) / 1e9);
  return text;
}

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
    tell_head(*drain);
  } else if (std::holds_alternative<wire::EndNode>(message) && end_) {
    const bool has_head = settings_.head_address.empty();
    client.peer->respond(request,
                         wire::Rows{{"node", "head"}, {{to_string(settings_.id), has_head ? "yes" : "no"}}, 1, 0});
    end_();
  } else {
    return false;
  }
  return true;
}

void Node::list_own(const Client& client, const wire::ListRows& asked, std::uint64_t request) {
  if (asked.table == "stacks") return background_.spawn(list_stacks(this, client.peer, asked, request));
  if (asked.table != "logs") {
    client.peer->respond(request, Error{ErrorCode::kInvalidArgument, "a node has no list of \"" + asked.table + "\"",
                                        "It has logs and stacks."});
    return;
  }
  auto rows = select_rows(logs_.list(), asked);
  if (rows) {
    client.peer->respond(request, *std::move(rows));
  } else {
    client.peer->respond(request, std::move(rows).error());
  }
}

// ---- What processes do

struct Node::StackTable {
  wire::Rows rows;
  std::size_t next = 0;     // the first row that no coroutine looks at yet
  std::size_t lookers = 0;  // coroutines that have not ended
  std::size_t bytes = 0;
  async::Deadline until = async::Deadline::never();
  async::Completion<void> done;
};

/// Rows for the workers of this node, and for the drivers that have registered here. The columns for what they do are
/// empty.
wire::Rows Node::list_processes() const {
  wire::Rows all{{"id", "what", "actor", "node", "pid", "runs", "seconds", "waits", "stacks"}, {}, 0, 0};
  const std::string here = to_string(settings_.id);
  for (const auto& [id, worker] : workers_) {
    all.rows.push_back({to_string(id), worker->label, worker->actor ? to_string(worker->actor) : "", here,
                        std::to_string(worker->pid), "", "", "", ""});
  }
  for (const auto& [id, job] : jobs_) {
    if (job->driver == nullptr) continue;
    all.rows.push_back({to_string(id), job->program.executable, "", here, "", "", "", "", ""});
  }
  return all;
}

async::Async<void> Node::list_stacks(Node* self, std::shared_ptr<net::Peer> from, wire::ListRows asked,
                                     std::uint64_t request) {
  auto rows = select_rows(self->list_processes(), asked);
  if (!rows) {
    from->respond(request, std::move(rows).error());
    co_return;
  }
  const auto table = std::make_shared<StackTable>();
  table->rows = *std::move(rows);
  table->until = async::Deadline::after(kLookTime, self->executor_.now());
  table->lookers = std::min(table->rows.rows.size(), kLookedAtMax);
  if (table->lookers == 0) table->done.complete();
  for (std::size_t i = 0; i < table->lookers; ++i) self->background_.spawn(look_at_next(self, table));
  const auto done = co_await table->done.wait(async::Deadline::never());
  if (done) from->respond(request, table->rows);
}

async::Async<void> Node::look_at_next(Node* self, std::shared_ptr<StackTable> table) {
  while (table->next < table->rows.rows.size()) {
    const std::size_t row = table->next++;
    if (table->bytes > kStacksMax || table->until.expired(self->executor_.now())) {
      table->rows.rows[row][kStacks] = "not read: there are too many processes; ask for this process alone\n";
    } else {
      co_await look_at(self, table, row);
    }
  }
  if (--table->lookers == 0) table->done.complete();
}

async::Async<void> Node::look_at(Node* self, std::shared_ptr<StackTable> table, std::size_t row) {
  auto& cells = table->rows.rows[row];
  const auto worker = std::find_if(self->workers_.begin(), self->workers_.end(),
                                   [&](const auto& each) { return to_string(each.first) == cells[kId]; });
  std::shared_ptr<net::Peer> process;
  std::shared_ptr<net::Peer> zygote;
  WorkerId id;
  if (worker != self->workers_.end()) {
    id = worker->first;
    process = worker->second->control;
    zygote = worker->second->job->zygote;
  } else {
    const auto job = std::find_if(self->jobs_.begin(), self->jobs_.end(),
                                  [&](const auto& each) { return to_string(each.first) == cells[kId]; });
    if (job != self->jobs_.end()) process = job->second->driver;
  }
  if (zygote != nullptr) {
    wire::Message read = wire::ReadStacks{id};
    const auto deadline = async::Deadline::after(kStacksTime, self->executor_.now());
    const auto answer = co_await zygote->request(std::move(read), std::vector<Fd>{}, deadline);
    const auto* const stacks = answer ? std::get_if<wire::Stacks>(&answer->message) : nullptr;
    cells[kStacks] = stacks != nullptr ? stacks->text
                     : answer          ? "its zygote sent an invalid answer\n"
                                       : answer.error().message() + "\n";
  }
  if (process != nullptr) {
    wire::Message explain = wire::Explain{};
    const auto deadline = async::Deadline::after(kExplainTime, self->executor_.now());
    const auto answer = co_await process->request(std::move(explain), std::vector<Fd>{}, deadline);
    if (const auto* const said = answer ? std::get_if<wire::Explained>(&answer->message) : nullptr) {
      cells[kPid] = std::to_string(said->pid);
      cells[kRuns] = said->function;
      if (!said->function.empty()) cells[kSeconds] = seconds(said->nanoseconds);
      cells[kWaits] = said->waits;
    } else {
      cells[kWaits] = "  what it waits for is not known: it has not answered in time\n";
    }
  }
  table->bytes += cells[kStacks].size() + cells[kWaits].size();
}

// ---- Questions to other nodes

/// Returns true if the question is about this node. Otherwise passes the question on to its node, or refuses it.
template <class Question>
bool Node::is_answered_here(const Client& client, Question& question, std::uint64_t request) {
  if (!question.node || question.node == settings_.id) return true;
  if (question.passed_on) {
    client.peer->respond(request,
                         Error{ErrorCode::kUnavailable, "the node has ended, and another node uses its address"});
  } else if (passed_on_ >= kPassedOnMax) {
    client.peer->respond(
        request, Error{ErrorCode::kOverloaded, "too many questions are being passed on to other nodes", "Try again."});
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
