#include "worker_program.hpp"

#include <utility>

#include "caller.hpp"
#include "large_values.hpp"
#include "network.hpp"
#include "simulated_host.hpp"

namespace pharos::simulator {

WorkerProgram::WorkerProgram(Process& process, WorkerId worker, Fd node)
    : process_{process}, calls_{process.platform()} {
  const auto link = process.network().open(std::move(node), process);
  node_ = net::Peer::make(process.executor(), link, *this);
  link->start(node_);
  node_->send(wire::WorkerForked{worker, process.number()}, some_file());
}

void WorkerProgram::end() {
  node_->close();
  calls_.caller()->large_values().abandon();
  calls_.caller()->end();
  calls_.stop();
  calls_.end_suspended();
}

void WorkerProgram::on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t> request) {
  if (std::holds_alternative<wire::Inspect>(parcel.message) && request) {
    node_->respond(*request, calls_.inspect());
    return;
  }
  if (std::holds_alternative<wire::EndWorker>(parcel.message)) {
    calls_.stop();
    return process_.exit();
  }
  calls_.on_node_message(node_, std::move(parcel));
  if (request) node_->respond(*request, wire::Done{});
}

}  // namespace pharos::simulator
