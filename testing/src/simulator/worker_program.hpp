#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <pharos/net/peer.hpp>

#include "simulator/process.hpp"
#include "worker/call_server.hpp"

namespace pharos::simulator {

/// A worker, composed as actors::run_worker does it.
class WorkerProgram final : public Program, public net::Peer::Owner {
 public:
  WorkerProgram(Process& process, WorkerId worker, Fd node);

  void end() override;
  std::shared_ptr<detail::Caller> caller() override { return server_.caller(); }
  struct Incarnation {
    ActorId actor;
    std::uint32_t number;
    bool exclusive;  ///< the actor is exclusive, and not at the head's node, which ends with the head
  };
  /// The incarnation that runs in this worker; nullopt if the worker is not an actor's.
  const std::optional<Incarnation>& incarnation() const { return incarnation_; }

 private:
  void on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) override;
  void on_peer_closed(net::Peer&, const Error&) override { process_.exit(); }
  void watch_head();

  Process& process_;
  actors::CallServer server_;
  std::shared_ptr<net::Peer> node_;
  TimePoint last_beat_;
  std::optional<Incarnation> incarnation_;
};

}  // namespace pharos::simulator
