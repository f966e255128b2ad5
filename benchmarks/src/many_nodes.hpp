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

/// A head as it is shipped (Membership, Head, Records, the links' messages), in one thread, with nodes that only say
/// what nodes say: they join, beat, report, and start at once what they are told to. Every answer comes over an encoded
/// message. What the head does with one message, up to what it says, is timed; what the nodes do is not.
class ManyNodes {
 public:
  static constexpr pharos::JobId kJob{1};
  static constexpr pharos::CallerId kCaller{2};

  /// Each node has as many seats, and a tape each; the last one has the rare ones. `state`: where the head keeps
  /// records; empty: nowhere.
  ManyNodes(std::size_t nodes, std::size_t actors, std::uint64_t seats, std::filesystem::path state = {});
  ManyNodes(ManyNodes&&) = delete;
  ~ManyNodes();

  // ---- What the head does; in seconds

  double start_head();
  /// The next one.
  double join_node();
  double start_program();
  /// Until its creator knows where it is.
  double create_actor(const std::string& asks_for);
  /// Nobody is waited for.
  double ask_for_actor(const std::string& asks_for);
  double lose_node(std::size_t node);
  /// Another one joins in the place of one that was lost.
  double replace_node(std::size_t node);
  double let_a_second_pass(bool with_loads);
  double list(const std::string& table, std::uint32_t limit);
  /// What Ctrl-\\ asks.
  double inspect();
  double end_program();
  /// After a new start of the head.
  double return_nodes();

  // ---- What is not timed

  /// Many at once.
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
  /// Lets nodes read, and answer, until nobody has anything to say.
  double let_nodes_answer();
  void note_news(std::size_t node) { news_.push_back(node); }
  std::vector<std::vector<pharos::wire::Report>> make_reports() const;
  std::optional<pharos::wire::Message> answer_to(std::size_t node, const pharos::wire::Message& message);

  OneThread executor_;
  const std::filesystem::path state_;
  const std::uint64_t seats_;
  std::vector<Node> nodes_;
  std::size_t joined_ = 0;
  std::vector<std::size_t> news_;  // nodes that were told something
  std::vector<Place> places_;      // of actors, by their numbers
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
