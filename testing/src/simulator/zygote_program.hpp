#pragma once

#include <map>
#include <memory>

#include <pharos/net/peer.hpp>

#include "simulator/kernel.hpp"

namespace pharos::simulator {

/// A zygote (the process that forks a program's workers) as its node sees it: reports its program, and starts workers,
/// each as a simulated process. This class stands for process::run_zygote, which is about fork() and is tested in
/// tests/cluster. The node's side of the protocol is shipped code.
class ZygoteProgram final : public Program, public net::Peer::Owner {
 public:
  ZygoteProgram(Process& process, Kernel& kernel, Fd node, const wire::BuildId& build_id);

  void end() override { node_->close(); }
  void on_child_ended(pid_t pid, int status) override;

 private:
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer&, const Error&) override { process_.exit(); }
  void fork_worker(WorkerId worker, Fd control);

  Process& process_;
  Kernel& kernel_;
  TimePoint last_fork_;
  std::map<pid_t, WorkerId> workers_;
  std::shared_ptr<net::Peer> node_;
};

}  // namespace pharos::simulator
