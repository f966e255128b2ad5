#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/manual_executor.hpp>
#include <pharos/base/id.hpp>
#include <pharos/scheduler/placement.hpp>
#include <pharos/scheduler/resources.hpp>
#include <pharos/wire/message.hpp>

#include "head/effects.hpp"
#include "head/events.hpp"
#include "head/node_table.hpp"
#include "head/recovery.hpp"

namespace pharos::node::head {

/// What a part of the head has around it: a clock, the events, and nodes that keep what they are told. Caller N belongs
/// to job 7 unless a test says otherwise.
class HeadParts : public testing::Test {
 protected:
  static wire::Asker asker(std::uint64_t number, std::uint64_t caller = 70, std::uint64_t job = 7) {
    return {JobId{job}, CallerId{caller}, number};
  }
  static wire::Demand demand(const std::string& amounts) {
    return {.amounts = scheduler::Resources::parse(amounts)->amounts()};
  }

  /// Adds a node whose messages are kept.
  void add_node(std::uint64_t node) {
    nodes_.add(NodeId{node}, "10.0.0." + std::to_string(node),
               [this, node](wire::Message message) { told_[node].push_back(std::move(message)); });
  }
  /// Ends the present event, and returns the names of the messages that the node was told since the last call.
  std::vector<std::string> told(std::uint64_t node) {
    events_.end();
    std::vector<std::string> names;
    for (const wire::Message& message : std::exchange(told_[node], {})) names.emplace_back(wire::name_of(message));
    return names;
  }
  /// Ends the present event, and returns the last message of this type that the node was told. Throws, which fails the
  /// test, if there is none.
  template <class Wanted>
  Wanted last_told(std::uint64_t node) {
    events_.end();
    const std::vector<wire::Message> messages = std::exchange(told_[node], {});
    for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
      if (const auto* const wanted = std::get_if<Wanted>(&*message)) return *wanted;
    }
    throw std::runtime_error{"node " + std::to_string(node) + " was not told the message that the test expects"};
  }

  async::ManualExecutor executor_;
  std::map<std::uint64_t, std::vector<wire::Message>> told_;
  Events events_{executor_, nullptr, [] {}};
  Recovery recovery_;
  NodeTable nodes_{events_, recovery_};
};

using Names = std::vector<std::string>;

}  // namespace pharos::node::head
