#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/message.hpp>

#include "daemon/membership.hpp"
#include "one_thread.hpp"

namespace bench {

/// The head's shipped code (Membership, Head, Records and the messages of its links) in one thread, with simulated
/// nodes. A simulated node is no process. It sends the messages of a node: it joins, sends heartbeats, reports, and
/// answers at once that an actor has started or ended. Every message is encoded and decoded. The time that the head
/// takes for a message, until it has sent its own messages, is measured; the time of the nodes is not.
/// Throws if the head refuses a message or fails. The destructor stops the head.
class ManyNodes {
 public:
  static constexpr pharos::JobId kJob{1};
  static constexpr pharos::CallerId kCaller{2};

  /// Each node has the resources `seat` (as many as `seats`) and `tape` (1); the last node alone has `rare` (1000).
  /// `actors` is the expected number of actors. The head keeps records in the folder `state`, or none if it is empty.
  ManyNodes(std::size_t nodes, std::size_t actors, std::uint64_t seats, std::filesystem::path state = {});
  ManyNodes(ManyNodes&&) = delete;
  ~ManyNodes();

  // ---- Work of the head. Each function returns the head's CPU seconds, and start_head() wall-clock seconds.

  double start_head();
  /// Joins the next node.
  double join_node();
  double start_program();
  /// Creates an actor, until its creator has been told where the actor is. Throws if the actor was not placed.
  double create_actor(const std::string& asks_for);
  /// Asks for an actor that the head may leave waiting for its resources.
  double ask_for_actor(const std::string& asks_for);
  double lose_node(std::size_t node);
  /// Joins a new node in the place of a lost one.
  double replace_node(std::size_t node);
  double let_a_second_pass(bool with_loads);
  double list(const std::string& table, std::uint32_t limit);
  /// Asks for the running and waiting calls of the program, as Ctrl-\\ does.
  double inspect();
  double end_program();
  /// Joins all nodes again after a restart of the head, and sends their reports.
  double return_nodes();

  // ---- Work that is not timed

  /// Creates actors, with many requests in flight.
  void create_actors(std::size_t actors);
  void stop_head();
  std::size_t actors_at(std::size_t node) const;
  std::size_t actors_alive() const { return alive_; }
  const pharos::wire::Rows& rows() const { return rows_; }
  std::size_t inspected() const { return inspected_; }

 private:
  class Host;
  class Link;
  struct Node {
    pharos::NodeId id;
    std::shared_ptr<Link> link;
    std::uint64_t told = 0;
    std::uint64_t asked = 0;
  };
  struct Place {
    std::size_t node = 0;
    std::uint32_t incarnation = 0;
  };

  double tell(Node& node, const pharos::wire::Message& message, bool asks = false);
  double join(std::size_t place, bool again);
  pharos::wire::StartActor next_actor(const std::string& asks_for);
  /// Lets the nodes read and answer the head's messages, until there are no more. Returns the head's seconds.
  double let_nodes_answer();
  void note_news(std::size_t node) { news_.push_back(node); }
  std::vector<std::vector<pharos::wire::Report>> make_reports() const;
  std::optional<pharos::wire::Message> answer_to(std::size_t node, const pharos::wire::Message& message);

  OneThread executor_;
  const std::filesystem::path state_;
  const std::uint64_t seats_;
  std::vector<Node> nodes_;
  std::size_t joined_ = 0;
  std::vector<std::size_t> news_;  ///< nodes with unread messages
  std::vector<Place> places_;      ///< the place of actor n is at n - 1
  std::uint64_t last_actor_ = 0;
  std::uint64_t last_question_ = 0;
  std::uint64_t last_node_ = 0;
  std::size_t alive_ = 0;
  std::size_t inspected_ = 0;
  pharos::wire::Rows rows_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<pharos::node::Membership> head_;
};

}  // namespace bench
