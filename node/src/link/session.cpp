#include "link/session.hpp"

#include <utility>
#include <variant>

#include <pharos/base/check.hpp>

namespace pharos::node {

bool Session::belongs(const wire::Message& message) {
  return !std::holds_alternative<wire::Beat>(message) && !std::holds_alternative<wire::Output>(message) &&
         !std::holds_alternative<wire::JoinCluster>(message) && !std::holds_alternative<wire::ClusterJoined>(message);
}

void Session::resume(std::shared_ptr<net::Peer> link, std::uint64_t heard) {
  PHAROS_CHECK(can_resume(heard), number_, heard, confirmed_, unheard_.size());
  confirm(heard);
  link_ = std::move(link);
  for (const wire::Message& message : unheard_) link_->send(message);
}

void Session::say(wire::Message message) {
  if (unheard_.size() >= kUnheardMax) {
    unheard_.pop_front();
    ++confirmed_;
  }
  unheard_.push_back(std::move(message));
  if (link_ != nullptr) link_->send(unheard_.back());
}

void Session::confirm(std::uint64_t heard) {
  for (; confirmed_ < heard && !unheard_.empty(); ++confirmed_) unheard_.pop_front();
}

}  // namespace pharos::node
