#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/wire/message.hpp>

#include "node/host.hpp"
#include "node/to_head.hpp"

namespace pharos::node {

/// Reaches other nodes. The head is asked for their addresses.
/// Owned by Node; on its strand. Its coroutines run in the groups of those who call them, and must end before it does.
class FarNodes {
 public:
  /// `head_address` is empty if the head is in this process.
  FarNodes(async::Executor& executor, Host& host, ToHead& head, NodeId here, std::string head_address);

  /// Returns the address of another node; empty for the head's node if the head is in this process. Fails with the
  /// head's error (kNotFound if the node is not part of the cluster), with kDeadlineExceeded if the head does not
  /// answer within 10 s, and with kCancelled.
  async::Async<Result<std::string>> find(NodeId node);
  /// Connects to a node at this address, which is as in wire::ActorAlive: empty for the head's node. The node has been
  /// told what the connection is for. Any failure is kUnavailable, after 3 s at most.
  async::Async<Result<Fd>> connect(NodeId node, std::string address, Introduction introduction);

  /// Takes an answer of the head. An answer that nobody waits for is ignored.
  void on_found(const wire::NodeFound& found);
  void on_refused(const wire::Refused& refused);
  /// Asks another head what the one before has not answered.
  void ask_again();
  /// The number of questions that wait for the head.
  std::size_t asked() const { return questions_.size(); }

 private:
  struct Question {
    NodeId node;
    async::Completion<std::string> found;
  };

  async::Executor& executor_;
  Host& host_;
  ToHead& head_;
  const NodeId here_;
  const std::string head_address_;
  std::unordered_map<std::uint64_t, Question> questions_;  // by number
};

}  // namespace pharos::node
