#include "daemon/membership.hpp"

#include <limits>
#include <utility>
#include <variant>

namespace pharos::node {

Membership::Membership(async::Executor& executor, Host& host, Settings settings, Ends ends)
    : ends_{std::move(ends)},
      joined_nodes_{executor, host, [this] { return find_head(); }},
      node_{executor, host, settings.node, [this](wire::Message message) { tell_head(std::move(message)); },
            [this] { return queued_to_head(); }} {
  node_.when_told_to_end([this] { end_all(); });
  const Node::Settings& node = settings.node;
  if (node.head_address.empty()) {
    joined_ = !settings.open_records;
    here_ = make_head_here(executor, host, node.id, std::move(settings.open_records));
  } else {
    elsewhere_ = std::make_unique<HeadElsewhere>(
        executor, host,
        HeadElsewhere::Settings{
            .node = node.id, .address = node.head_address, .machine = node.machine, .away_max = settings.away_max},
        *this);
  }
}

std::unique_ptr<HeadHere> Membership::make_head_here(async::Executor& executor, Host& host, NodeId id,
                                                     OpenRecords open_records) {
  const Machine& machine = node_.machine();
  HeadHere::OwnNode own_node{.id = id,
                             .description = {.address = {}, .total = machine.resources, .labels = machine.labels},
                             .hear = [this](wire::Message message) { node_.on_head_message(std::move(message)); }};
  HeadHere::Events events{.started =
                              [this] {
                                if (joined_) node_.return_to_head();
                                note_joined();
                              },
                          .failed = [this] { joined_nodes_.forget_all(); }};
  return std::make_unique<HeadHere>(executor, host, std::move(own_node), std::move(open_records), std::move(events));
}

Result<Head*> Membership::find_head() {
  if (here_ != nullptr) return here_->find();
  return Error{ErrorCode::kFailedPrecondition, "this address belongs to a node, not to the head",
               "Join its head, at " + elsewhere_->address() + "."};
}

void Membership::tell_head(wire::Message message) {
  if (here_ != nullptr) {
    here_->tell(std::move(message));
  } else if (elsewhere_ != nullptr) {
    elsewhere_->tell(std::move(message));
  }
}

/// Bytes that the head has not read. As much as can be while it is away, so that the output of workers waits in their
/// pipes.
std::size_t Membership::queued_to_head() const {
  constexpr std::size_t kAway = std::numeric_limits<std::size_t>::max();
  if (here_ != nullptr) return head() == nullptr ? kAway : 0;
  return elsewhere_->queued().value_or(kAway);
}

// A node that has not joined has no head to which it could report a job.
void Membership::add_driver(Fd socket) {
  if (joined_) {
    node_.add_driver(std::move(socket));
  } else if (waiting_.size() < kWaitingMax) {
    waiting_.push_back(std::move(socket));
  }
}

void Membership::note_joined() {
  joined_ = true;
  for (Fd& driver : std::exchange(waiting_, {})) node_.add_driver(std::move(driver));
}

void Membership::end_all() {
  joined_nodes_.end_all();
  if (ends_.told_to) ends_.told_to();
}

// ---- What comes from a head elsewhere

void Membership::on_joined(const wire::ClusterJoined& cluster) {
  node_.note_cluster(cluster);
  note_joined();
}

void Membership::on_joined_again(const wire::ClusterJoined& cluster) {
  node_.note_cluster(cluster);
  node_.return_to_head();
}

void Membership::on_head_message(wire::Message message) {
  if (std::holds_alternative<wire::EndNode>(message)) return end_all();
  node_.on_head_message(std::move(message));
}

void Membership::close() {
  node_.close();
  if (here_ != nullptr) here_->close();
  if (elsewhere_ != nullptr) elsewhere_->close();
  joined_nodes_.close();
}

}  // namespace pharos::node
