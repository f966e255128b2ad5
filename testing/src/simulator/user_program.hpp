#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

#include "simulator/process.hpp"

namespace pharos::simulator {

/// What a person does at a command line: asks a node these questions, all at once, and ends when each has its answer.
class UserProgram final : public Program, public net::Peer::Owner {
 public:
  /// Called with each question that has neither an answer nor an error within kAnswerTime.
  using Unanswered = std::function<void(const std::string& which)>;
  static constexpr Duration kAnswerTime = std::chrono::seconds{60};  // longer than any fault lasts

  UserProgram(Process& process, Fd node, std::vector<wire::Message> questions, Unanswered unanswered);

  void end() override;

 private:
  async::Async<void> ask(wire::Message question);
  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer&, const Error&) override { process_.exit(); }

  Process& process_;
  const Unanswered unanswered_;
  std::size_t open_;  // questions without an answer
  std::shared_ptr<net::Peer> node_;
  async::AsyncGroup background_;
};

}  // namespace pharos::simulator
