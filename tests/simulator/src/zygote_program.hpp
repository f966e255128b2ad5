#pragma once

#include <map>
#include <memory>

#include <pharos/net/peer.hpp>

#include "kernel.hpp"

namespace pharos::simulator {

/// A zygote as its node sees it: says what it is, and starts workers, each a process of its own. Both sides of the
/// protocol but one are shipped code: process::run_zygote is about fork(), and tests/cluster is about that.
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
