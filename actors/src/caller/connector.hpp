#pragma once

#include <memory>
#include <string>

#include <pharos/net/peer.hpp>

#include "caller/outgoing_calls.hpp"
#include "program/platform.hpp"

namespace pharos::actors {

/// Makes the OutgoingCalls of one caller, and connects them to the workers that the node offers. Shared by the parts of
/// a Caller, and keeps the platform. Any thread, after join().
class Connector {
 public:
  Connector(std::shared_ptr<Platform> platform, OutgoingCalls::Sender sender)
      : platform_{std::move(platform)}, sender_{std::move(sender)} {}

  /// Called once, when the node has registered the caller, before open(). `receiver` takes what comes with results.
  void join(CallerId caller, std::weak_ptr<OutgoingCalls::Receiver> receiver);
  std::shared_ptr<OutgoingCalls> open(std::weak_ptr<OutgoingCalls::Observer> observer) const;
  /// Connects `calls` to the worker of the node's answer. `whose` names the worker in errors. If the answer names no
  /// worker, the calls and all later ones fail with kInternal.
  void connect(OutgoingCalls& calls, net::Parcel answer, const std::string& whose) const;

 private:
  const std::shared_ptr<Platform> platform_;
  OutgoingCalls::Sender sender_;
};

}  // namespace pharos::actors
