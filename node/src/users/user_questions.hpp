#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pharos/async/async.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

#include "logs/logs.hpp"
#include "node/clients.hpp"
#include "node/far_nodes.hpp"
#include "node/questions.hpp"
#include "node/site.hpp"
#include "users/gpu_listing.hpp"
#include "users/object_listing.hpp"
#include "users/process_listing.hpp"

namespace pharos::node {

/// Answers what users ask any node, with the console. A question is about this node, about another node that is asked
/// by way of this one, or about the head.
/// Failure: the user gets the error of the head or of the other node; kNotFound if there is no such node or log,
/// kInvalidArgument if there is no such list or column, kUnavailable or kDeadlineExceeded if the other node is not
/// reached or does not answer in time (8 s, and up to 10 s if the head is slow to say where it is). A question to the
/// head has no time limit here.
/// Owned by Node; on its strand. Its coroutines run in the node's background group, which ends before it. Bounds:
/// passes kPassedOnMax questions on at once, and refuses others with kOverloaded.
class UserQuestions {
 public:
  static constexpr std::size_t kPassedOnMax = 64;

  UserQuestions(Site& site, Clients& clients, FarNodes& far_nodes, Questions& questions, Logs& logs,
                ProcessListing processes, GpuListing gpus, ObjectListing objects)
      : site_{site},
        clients_{clients},
        far_nodes_{far_nodes},
        questions_{questions},
        logs_{logs},
        processes_{processes},
        gpus_{gpus},
        objects_{objects} {}

  void list(const Client& client, wire::ListRows asked, std::uint64_t request);
  void read_log(const Client& client, wire::ReadLog asked, std::uint64_t request);
  template <class Question>
  void ask_head(const Client& client, Question asked, std::uint64_t request) {
    asked.number = site_.head.next_number();
    questions_.ask(asked.number, Asked{.client = client, .request = request, .question = asked});
  }

 private:
  void list_own(const Client& client, const wire::ListRows& asked, std::uint64_t request);
  wire::Rows clock_here() const;
  template <class Question>
  bool is_answered_here(const Client& client, Question& question, std::uint64_t request);
  async::Async<void> pass_on(std::shared_ptr<net::Peer> from, std::uint64_t request, NodeId to, wire::Message question);
  async::Async<Result<net::Parcel>> ask(NodeId node, wire::Message question);

  Site& site_;
  Clients& clients_;
  FarNodes& far_nodes_;
  Questions& questions_;
  Logs& logs_;
  ProcessListing processes_;
  GpuListing gpus_;
  ObjectListing objects_;
  std::size_t passed_on_ = 0;  // questions that other nodes are asked at the moment
};

}  // namespace pharos::node
