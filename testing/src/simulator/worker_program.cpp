#include "simulator/worker_program.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "caller/caller.hpp"
#include "results/large_values.hpp"
#include "simulator/network.hpp"

namespace pharos::simulator {
namespace {

constexpr Duration kSilenceMax = std::chrono::seconds{8};

}  // namespace

WorkerProgram::WorkerProgram(Process& process, WorkerId worker, Fd node)
    : process_{process}, server_{process.platform()} {
  const auto link = process.network().open(std::move(node), process);
  node_ = net::Peer::make(process.executor(), link, *this);
  link->start(node_);
  node_->send(wire::WorkerForked{worker, process.number()}, some_file());
}

void WorkerProgram::end() {
  node_->close();
  server_.caller()->large_values().abandon();
  server_.caller()->end();
  server_.stop();
  server_.end_suspended();
}

void WorkerProgram::on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::Inspect>(parcel.message) && request) {
    node_->respond(*request, server_.workplace().inspect());
    return;
  }
  if (std::holds_alternative<wire::Explain>(parcel.message) && request) {
    return server_.caller()->pending_results().explain(
        server_.workplace().inspect().workers.front(),
        [node = node_, number = *request](auto explained) { node->respond(number, std::move(explained)); });
  }
  if (std::holds_alternative<wire::EndWorker>(parcel.message)) {
    server_.stop();
    return process_.exit();
  }
  if (const auto* const beat = std::get_if<wire::Beat>(&parcel.message)) {
    last_beat_ = std::min(beat->sent, process_.now());
    return;
  }
  if (const auto* const made = std::get_if<wire::ConstructActor>(&parcel.message)) {
    if (made->exclusive) watch_head();
    if (process_.ending()) return;
    incarnation_ = Incarnation{made->actor, made->incarnation, made->exclusive};
  }
  server_.on_node_message(node_, std::move(parcel));
  if (request) node_->respond(*request, wire::Done{});
}

// Does the same as actors/src/worker.cpp: the process of an exclusive actor ends when the head is silent.
void WorkerProgram::watch_head() {
  if (process_.now() - last_beat_ >= kSilenceMax) return process_.exit(1);
  process_.at(process_.now() + kSilenceMax / 16, [this] { watch_head(); });
}

}  // namespace pharos::simulator
