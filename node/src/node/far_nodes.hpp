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
/// Owned by Node; on its strand. Its coroutines end before it does.
class FarNodes {
 public:
  /// `head_address` is empty if the head is in this process.
  FarNodes(async::Executor& executor, Host& host, ToHead& head, NodeId here, std::string head_address);

  /// Returns the address of another node. The errors are the head's, and kDeadlineExceeded.
  async::Async<Result<std::string>> find(NodeId node);
  /// Connects to a node at this address, which is as in wire::ActorAlive: empty for the head's node. The node has been
  /// told what the connection is for.
  async::Async<Result<Fd>> connect(NodeId node, std::string address, Introduction introduction);

  /// Takes an answer of the head. One that nobody waits for is left alone.
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
