#include "head/events.hpp"

namespace pharos::node::head {
namespace {

constexpr ByteCount kDiskReserve{std::uint64_t{12} << 20};

}  // namespace

Events::Events(async::Executor& executor, Records* records, std::function<void()> complete)
    : executor_{executor}, records_{records}, complete_{std::move(complete)} {}

void Events::run_later(Duration after, Task task) {
  executor_.run_at(now() + after, [this, alive = std::weak_ptr{alive_}, task = std::move(task)]() mutable {
    if (alive.expired()) return;
    task();
    end();
  });
}

void Events::end() {
  complete_();
  const auto send = [this](std::vector<std::pair<NodeId, wire::Message>>& messages) {
    for (auto& [node, message] : messages) tell_at_once(node, std::move(message));
  };
  if (records_ != nullptr) {
    return records_->commit([send, messages = std::exchange(messages_, {})]() mutable { send(messages); });
  }
  send(messages_);
  messages_.clear();
}

void Events::tell_at_once(NodeId node, wire::Message message) {
  if (const auto link = links_.find(node); link != links_.end()) link->second(std::move(message));
}

void Events::put(std::string key, const wire::Message& record) {
  if (records_ != nullptr) records_->put(std::move(key), record);
}

void Events::erase(std::string key) {
  if (records_ != nullptr) records_->erase(std::move(key));
}

void Events::set_aside(const Records::Record& record) {
  if (records_ != nullptr) records_->set_aside(record);
}

bool Events::has_room(NodeId from, const wire::Asker& asker) {
  if (records_ == nullptr) return true;
  const ByteCount left = records_->free_space();
  if (left >= kDiskReserve) return true;
  tell(from, wire::Refused{asker.number,
                           {ErrorCode::kExhausted,
                            "the disk of the head's state has " + to_string(left) + " left, and the last " +
                                to_string(kDiskReserve) + " are reserved for actors and jobs that exist already",
                            "Free some space on that disk; the head continues by itself."}});
  return false;
}

}  // namespace pharos::node::head
