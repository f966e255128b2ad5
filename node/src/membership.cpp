#include "membership.hpp"

#include <utility>

namespace pharos::node {

Membership::Membership(async::Executor& executor, Host& host, const Node::Settings& settings,
                       std::function<void(const Error& why)> when_lost)
    : executor_{executor},
      host_{host},
      id_{settings.id},
      head_address_{settings.head_address},
      when_lost_{std::move(when_lost)},
      node_{executor, host, settings, [this](wire::Message message) { tell_head(std::move(message)); },
            [this] { return head_link_ == nullptr ? 0 : head_link_->queued(); }} {
  if (!head_address_.empty()) return;
  head_ = std::make_unique<Head>(executor);
  head_->add_node(
      id_, {.address = {}, .total = settings.machine.resources, .labels = settings.machine.labels},
      [this](wire::Message message) {
        executor_.post([this, message = std::move(message)]() mutable { node_.on_head_message(std::move(message)); });
      });
}

// Never at once: what one says to the other is heard when the one is done.
void Membership::tell_head(wire::Message message) {
  if (head_ != nullptr) {
    executor_.post([this, message = std::move(message)]() mutable { head_->on_message(id_, std::move(message)); });
  } else if (head_link_ != nullptr) {
    head_link_->send(message);
  }
}

std::shared_ptr<net::Peer> Membership::link_to(Fd socket) {
  const auto link = host_.make_link(std::move(socket), net::Descriptors::kRefused);
  auto peer = net::Peer::make(executor_, link, *this);
  link->start(peer);
  return peer;
}

async::Async<Result<void>> Membership::join(Membership* self, Fd head, std::string reached_at,
                                            async::Deadline deadline) {
  self->head_link_ = self->link_to(std::move(head));
  wire::Message ask =
      wire::JoinCluster{self->id_, reached_at, self->node_.machine().resources.amounts(), self->node_.machine().labels};
  PHAROS_CO_TRY(const net::Parcel answer,
                co_await self->head_link_->request(std::move(ask), std::vector<Fd>{}, deadline));
  const auto* const cluster = std::get_if<wire::ClusterJoined>(&answer.message);
  if (cluster == nullptr) co_return Error{ErrorCode::kInternal, "the head gave an answer that fits no node"};
  self->node_.note_cluster(cluster->cpus);
  self->joined_ = true;
  for (Fd& driver : self->waiting_) self->node_.add_driver(std::move(driver));
  self->waiting_.clear();
  co_return {};
}

// A node that has not joined has nobody to tell of a job.
void Membership::add_driver(Fd socket) {
  if (head_ != nullptr || joined_) {
    node_.add_driver(std::move(socket));
  } else if (waiting_.size() < kWaitingMax) {
    waiting_.push_back(std::move(socket));
  }
}

void Membership::add_node(Fd socket) {
  const auto peer = link_to(std::move(socket));
  far_nodes_.emplace(peer.get(), FarNode{peer, {}});
}

void Membership::admit(FarNode& node, const wire::JoinCluster& join, std::uint64_t request) {
  if (head_ == nullptr) {
    node.peer->respond(request, Error{ErrorCode::kFailedPrecondition, "there is a node, and no head",
                                      "Join its head, at " + head_address_ + "."});
    return;
  }
  auto total = scheduler::Resources::checked(join.amounts);
  if (total) {
    const auto labels = scheduler::check_labels(join.labels);
    if (!labels) total = labels.error();
  }
  if (!total || head_->knows(join.node)) {
    node.peer->respond(
        request, total ? Error{ErrorCode::kAlreadyExists, "the node has joined before"} : std::move(total).error());
    return;
  }
  node.id = join.node;
  head_->add_node(join.node, {.address = join.address, .total = *total, .labels = join.labels},
                  [peer = node.peer](wire::Message message) { peer->send(message); });
  node.peer->respond(request, wire::ClusterJoined{head_->cpus()});
}

void Membership::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  if (head_link_ != nullptr && &from == head_link_.get()) return node_.on_head_message(std::move(parcel.message));
  const auto found = far_nodes_.find(&from);
  if (found == far_nodes_.end()) return;
  const auto* const join = std::get_if<wire::JoinCluster>(&parcel.message);
  if (join != nullptr && request && !found->second.id) return admit(found->second, *join, *request);
  if (found->second.id) head_->on_message(found->second.id, std::move(parcel.message));
}

void Membership::on_peer_closed(net::Peer& peer, const Error& why) {
  if (head_link_ != nullptr && &peer == head_link_.get()) return when_lost_(why);
  const auto gone = far_nodes_.extract(&peer);
  if (!gone.empty() && gone.mapped().id) head_->remove_node(gone.mapped().id);
}

void Membership::close() {
  node_.close();
  if (head_link_ != nullptr) head_link_->close();
  for (const auto& [peer, node] : far_nodes_) node.peer->close();
}

}  // namespace pharos::node
