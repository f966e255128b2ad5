#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/id.hpp>
#include <pharos/wire/message.hpp>

#include "head/records.hpp"

namespace pharos::node::head {

/// The events of a head, one after the other. An event is a message from a node, a call of the head's owner, or a
/// timer. During an event the parts of the head tell nodes messages and change records. At the end of the event the
/// changes become durable together; after that the messages are sent, in their order.
/// Failure: messages to nodes that are not connected are dropped. After a failed write only tell_at_once() sends
/// anything, and the head has to be replaced (Records).
/// Owned by Head; everything is on its strand. The Records outlive it, and must run no effect after it. End: the
/// destructor; timers that are still set do nothing then, and messages that are not sent are lost.
class Events {
 public:
  /// Sends a message to a node. Never calls the head from inside.
  using Tell = async::UniqueFunction<void(wire::Message)>;
  using Task = async::UniqueFunction<void()>;

  /// Without `records` nothing outlives the head. `complete` is called at the end of each event, and may still change
  /// records and tell messages.
  Events(async::Executor& executor, Records* records, std::function<void()> complete);
  Events(Events&&) = delete;

  TimePoint now() const { return executor_.now(); }
  /// Runs `task` after this time, as an event of its own.
  void run_later(Duration after, Task task);
  /// Ends the present event.
  void end();

  // ---- Messages

  void connect(NodeId node, Tell tell) { links_.emplace(node, std::move(tell)); }
  /// Messages that are still to be sent to the node are dropped.
  void disconnect(NodeId node) { links_.erase(node); }
  void tell(NodeId node, wire::Message message) { messages_.emplace_back(node, std::move(message)); }
  /// Sends the message before the end of the event. Such a message waits for no write.
  void tell_at_once(NodeId node, wire::Message message);

  // ---- Records. Without records the calls that change them do nothing.

  bool has_records() const { return records_ != nullptr; }
  void put(std::string key, const wire::Message& record);
  void erase(std::string key);
  void set_aside(const Records::Record& record);
  /// Returns whether the disk has room for something new. Restarts and ends of what exists have to be recorded too, so
  /// 12 MiB of the disk are reserved for them. If there is no room, the question is refused with kExhausted.
  bool has_room(NodeId from, const wire::Asker& asker);

 private:
  async::Executor& executor_;
  Records* const records_;  // null: nothing is recorded
  std::function<void()> complete_;
  std::unordered_map<NodeId, Tell> links_;
  std::vector<std::pair<NodeId, wire::Message>> messages_;  // of the present event
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace pharos::node::head
