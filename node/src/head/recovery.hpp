#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/id.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::node::head {

/// The recovery of a head that has started from records: which nodes of the earlier head have not come back or not
/// reported yet, and which messages cannot be decided before all of them have. An expected node comes back, sends its
/// Reports, and is then a node like any other. Pure: no timer and no I/O; Head asks for the nodes whose time is over.
/// Owned by Head; on its strand. Bounds: none. The destructor drops the messages that were put off.
class Recovery {
 public:
  void begin() { under_way_ = true; }
  bool is_under_way() const { return under_way_; }

  /// The node was part of the earlier head's cluster. It has until `until` to come back.
  void expect(NodeId node, std::string address, TimePoint until);
  /// Returns the address of an expected node; nullptr if the node is not expected.
  const std::string* find_expected(NodeId node) const;
  bool expects(NodeId node) const { return expected_.contains(node); }
  std::vector<NodeId> expected() const;
  /// Returns the expected nodes whose time is over.
  std::vector<NodeId> overdue(TimePoint now) const;
  /// The node is not expected any more. Returns its address; nullopt if it was not expected.
  std::optional<std::string> give_up(NodeId node);

  /// The node has come back; its reports follow.
  void await_report(NodeId node);
  bool awaits_report_of(NodeId node) const { return reporting_.contains(node); }
  /// Returns whether the node has come back and has reported everything, or was never expected.
  bool is_settled(NodeId node) const { return !expects(node) && !awaits_report_of(node); }
  /// Returns the whole report once its last part is here. A part from a node whose report is not awaited is ignored.
  std::optional<wire::Report> add_report(NodeId from, wire::Report part);
  /// The node was lost while it reported. Returns false if no report was awaited.
  bool drop_report(NodeId node) { return reporting_.erase(node) != 0; }

  /// Keeps a message, which Head handles when the recovery is over, in the order of arrival.
  void put_off(NodeId from, wire::Message message) { put_off_.emplace_back(from, std::move(message)); }
  /// Ends the recovery if no node is expected or reporting. Returns whether it has ended now.
  bool end_if_all_settled();
  std::vector<std::pair<NodeId, wire::Message>> take_put_off() { return std::exchange(put_off_, {}); }

 private:
  struct Expected {
    std::string address;  // where other nodes reached the node
    TimePoint until;      // when the node is given up
  };

  bool under_way_ = false;
  std::unordered_map<NodeId, Expected> expected_;
  std::unordered_map<NodeId, wire::Report> reporting_;     // nodes that are back, and their reports so far
  std::vector<std::pair<NodeId, wire::Message>> put_off_;  // messages and their senders
};

}  // namespace pharos::node::head
