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
  PHAROS_CHECK(can_resume(heard), number_, heard, confirmed_, unconfirmed_.size());
  confirm(heard);
  link_ = std::move(link);
  for (const wire::Message& message : unconfirmed_) link_->send(message);
}

void Session::send(wire::Message message) {
  if (unconfirmed_.size() >= kUnconfirmedMax) {
    unconfirmed_.pop_front();
    ++confirmed_;
  }
  unconfirmed_.push_back(std::move(message));
  if (link_ != nullptr) link_->send(unconfirmed_.back());
}

void Session::confirm(std::uint64_t heard) {
  for (; confirmed_ < heard && !unconfirmed_.empty(); ++confirmed_) unconfirmed_.pop_front();
}

}  // namespace pharos::node
