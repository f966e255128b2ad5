#include "store/exported_objects.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <pharos/base/overloaded.hpp>
#include <pharos/node/failpoints.hpp>

namespace pharos::node {
namespace {

using object_store::Chunks;
using object_store::PinKind;
using object_store::PullRequest;

constexpr std::size_t kChainMin = 16 * object_store::kChunkBytes;  // a smaller object is sent too fast for a chain

}  // namespace

ExportedObjects::ExportedObjects(async::Executor& executor, Host& host, NodeId self, std::shared_ptr<NodeStore> store,
                                 NodePins pins, ImportedObjects& imports, Bring bring)
    : executor_{executor},
      host_{host},
      self_{self},
      store_{std::move(store)},
      pins_{std::move(pins)},
      imports_{imports},
      bring_{std::move(bring)} {}

void ExportedObjects::close() {
  for (const auto& [node, neighbour] : neighbours_) {
    if (neighbour.link != nullptr) neighbour.link->close();
  }
}

std::size_t ExportedObjects::claims() const {
  std::size_t all = 0;
  for (const auto& [node, neighbour] : neighbours_) all += neighbour.claims.size();
  return all;
}

std::vector<NodeId> ExportedObjects::neighbours() const {
  std::vector<NodeId> all;
  for (const auto& [node, neighbour] : neighbours_) all.push_back(node);
  return all;
}

// ---- Claims

void ExportedObjects::add_neighbour(NodeId node, Fd socket) {
  auto known = neighbours_.find(node);
  if (known == neighbours_.end()) {
    auto pins = NodePins::open(store_, CallerId{node.value()});
    if (!pins) return;  // closes the connection; the other node reports that this one cannot be reached
    known = neighbours_.emplace(node, Neighbour{.link = nullptr, .pins = *std::move(pins)}).first;
  }
  if (known->second.link != nullptr) known->second.link->close();
  const auto link = host_.make_link(std::move(socket), net::Descriptors::kRefused);
  known->second.link = net::Peer::make(executor_, link, *this);
  ++known->second.connection;
  link->start(known->second.link);
}

void ExportedObjects::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t> request) {
  const auto sender = std::find_if(neighbours_.begin(), neighbours_.end(),
                                   [&from](const auto& entry) { return entry.second.link.get() == &from; });
  if (sender == neighbours_.end()) return;
  Neighbour& neighbour = sender->second;
  std::visit(
      Overloaded{
          [&](const wire::ReleaseObject& released) { release(neighbour, released.object.id); },
          [&](const wire::ClaimObject& wanted) {
            if (!request) return;
            auto claimed = claim(neighbour, wanted.object);
            if (claimed) {
              from.respond(*request, *claimed);
            } else {
              from.respond(*request, std::move(claimed).error());
            }
          },
          [&](const auto&) {
            if (!request) return;
            from.respond(*request, Error{ErrorCode::kUnsupported, "a node cannot send this request to another node"});
          }},
      parcel.message);
}

// An object that this node has imported can be claimed only at the node that has it, so the answer names that node.
Result<wire::ObjectClaimed> ExportedObjects::claim(Neighbour& neighbour, const Location& object) {
  if (const Location* const origin = imports_.origin_of(object.place);
      origin != nullptr && origin->id == object.id && origin->node != self_ && object.node == self_) {
    return wire::ObjectClaimed{.elsewhere = *origin};
  }
  if (const Location* const there = moved_to(object.id)) return wire::ObjectClaimed{.elsewhere = *there};
  PHAROS_TRY(const auto pin, neighbour.pins.take(PinKind::kKeep, object));
  if (!pin || object.node != self_) {
    if (pin) neighbour.pins.drop(pin->number);
    return object_store::lost(object, !store_->book.has_process(object.owner));
  }
  const auto [claimed, is_new] =
      neighbour.claims.try_emplace(object.id, Claim{object, pin->number, neighbour.connection});
  if (!is_new) {
    claimed->second.connection = neighbour.connection;
    neighbour.pins.drop(pin->number);
  }
  failpoint(failpoints::kObjectClaimed);
  return wire::ObjectClaimed{.size = pin->object.size, .label = store_->ledger.label_of(object.place.slot)};
}

// An id without a maker stands for all claims that were made over earlier connections and not again over this one.
void ExportedObjects::release(Neighbour& neighbour, const ObjectId& id) {
  std::erase_if(neighbour.claims, [&](const auto& entry) {
    const auto& [its, claim] = entry;
    const bool goes = id.maker ? its == id : claim.connection != neighbour.connection;
    if (goes) neighbour.pins.drop(claim.pin);
    return goes;
  });
}

std::vector<ExportedObjects::Claimed> ExportedObjects::claimed() const {
  std::map<ObjectId, Claimed> all;
  for (const auto& [node, neighbour] : neighbours_) {
    for (const auto& [id, claim] : neighbour.claims) {
      Claimed& claimed = all[id];
      claimed.object = claim.object;
      claimed.bytes = store_->ledger.slot(claim.object.place.slot).size.load();
      claimed.nodes.push_back(node);
    }
  }
  std::vector<Claimed> list;
  list.reserve(all.size());
  for (auto& [id, claimed] : all) list.push_back(std::move(claimed));
  return list;
}

std::shared_ptr<net::Peer> ExportedObjects::link_to(NodeId node) const {
  const auto found = neighbours_.find(node);
  return found == neighbours_.end() ? nullptr : found->second.link;
}

void ExportedObjects::note_moved(NodeId node, const ObjectId& id, const Location& to) {
  moved_.insert_or_assign(id, to);
  end_claim(node, id);
}

void ExportedObjects::end_claim(NodeId node, const ObjectId& id) {
  if (const auto found = neighbours_.find(node); found != neighbours_.end()) release(found->second, id);
}

const object_store::Location* ExportedObjects::moved_to(const ObjectId& id) const {
  const auto found = moved_.find(id);
  return found == moved_.end() ? nullptr : &found->second;
}

void ExportedObjects::on_peer_closed(net::Peer& peer, const Error&) {
  for (auto& [node, neighbour] : neighbours_) {
    if (neighbour.link.get() != &peer) continue;
    neighbour.link = nullptr;
    return drop_if_lost(node, neighbour.connection, executor_.now() + ImportedObjects::kAwayTime);
  }
}

/// Returns whether the node has not come back since that connection ended.
bool ExportedObjects::is_away(NodeId node, std::uint64_t connection) const {
  const auto found = neighbours_.find(node);
  return found != neighbours_.end() && found->second.connection == connection && found->second.link == nullptr;
}

void ExportedObjects::drop_if_lost(NodeId node, std::uint64_t connection, TimePoint until) {
  executor_.run_at(executor_.now() + ImportedObjects::kGraceTime, [this, node, connection, until] {
    if (!is_away(node, connection)) return;
    if (executor_.now() >= until) return drop(node);
    imports_.ask_whether_lost(node, [this, node, connection, until](bool lost) {
      if (!is_away(node, connection)) return;
      if (lost) return drop(node);
      drop_if_lost(node, connection, until);
    });
  });
}

void ExportedObjects::drop(NodeId node) {
  neighbours_.at(node).pins.close();
  neighbours_.erase(node);
}

// ---- Bytes

void ExportedObjects::answer_pull(const PullRequest& request, Host::TakePullAnswer then) {
  const bool own = request.object.node == self_;
  const auto imported = own ? std::nullopt : imports_.find(request.object.id);
  if (!own && !imported) {
    return then(Error{ErrorCode::kUnavailable, "node " + to_string(self_) + " has no such object"});
  }
  const Location& here = own ? request.object : *imported;
  auto pin = pins_.take(PinKind::kRead, here);
  if (!pin) return then(std::move(pin).error());
  if (!*pin) return then(object_store::lost(here, !store_->book.has_process(here.owner)));
  const auto chain = chains_.find(here.id);
  if (!request.insists && chain != chains_.end() && chain->second.last != request.from &&
      (*pin)->object.size >= kChainMin) {
    pins_.drop((*pin)->number);
    return then(Host::PullAnswer{.instead = std::exchange(chain->second.last, request.from)});
  }
  if (auto chunks = imports_.begin_relay(here.id)) {
    note_begun(request);
    return then(Host::PullAnswer{.chunks = std::move(chunks), .done = [this, request, number = (*pin)->number] {
                                   imports_.end_relay(request.object.id);
                                   note_ended(request);
                                   pins_.drop(number);
                                 }});
  }
  if ((*pin)->object.in_memory) return then(whole(request, **pin));
  bring_(here, [this, request, pinned = **pin, then = std::move(then)](Result<void> brought) mutable {
    if (brought) return then(whole(request, pinned));
    pins_.drop(pinned.number);
    then(std::move(brought).error());
  });
}

Result<Host::PullAnswer> ExportedObjects::whole(const PullRequest& request, const NodePins::Pin& pin) {
  const auto bytes = store_->bytes();
  if (!bytes) {
    pins_.drop(pin.number);
    return bytes.error();
  }
  note_begun(request);
  return Host::PullAnswer{.chunks = Chunks::all_of(bytes->subspan(pin.object.offset, pin.object.size), store_),
                          .done = [this, request, number = pin.number] {
                            note_ended(request);
                            pins_.drop(number);
                          }};
}

void ExportedObjects::note_begun(const PullRequest& request) {
  Chain& chain = chains_[request.object.id];
  ++chain.served;
  chain.last = request.from;
}

void ExportedObjects::note_ended(const PullRequest& request) {
  const auto chain = chains_.find(request.object.id);
  if (--chain->second.served == 0) chains_.erase(chain);
}

}  // namespace pharos::node
