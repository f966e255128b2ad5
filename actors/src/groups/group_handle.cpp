#include "groups/group_handle.hpp"

#include <pharos/base/random.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/wire/codec.hpp>

#include "caller/caller.hpp"
#include "caller/refused.hpp"
#include "caller/shape.hpp"

namespace pharos {
namespace detail {

void GroupHandle::remove() {
  const auto caller = caller_.lock();
  if (caller != nullptr && !caller->abandoned() && !removed_.exchange(true)) caller->tell_node(wire::RemoveGroup{id_});
}

std::shared_ptr<GroupHandle> Caller::reserve(const GroupOptions& options) {
  if (abandoned()) throw_error(actors::forked());
  if (const auto named = scheduler::check_name(options.name); !named) {
    throw_error(Error{named.error()}.with("reserving resources"));
  }
  wire::PlaceGroup place{.group = GroupId{random_u64()}, .label = options.name, .strategy = options.strategy};
  for (const Bundle& bundle : options.bundles) {
    const auto shape = actors::Shape::of(bundle);
    if (!shape) throw_error(Error{shape.error()}.with("reserving resources"));
    place.bundles.push_back(shape->to_wire());
  }
  CellHandle cell = new_cell();
  auto handle = std::make_shared<GroupHandle>(weak_from_this(), place.group, place.bundles.size(), cell);
  cell->on_cancel([weak = std::weak_ptr{handle}] {
    if (const auto group = weak.lock()) group->remove();
  });
  background_.spawn(place_group(this, std::move(cell), std::move(place)));
  return handle;
}

async::Async<void> Caller::place_group(Caller* self, CellHandle cell, wire::PlaceGroup place) {
  if (const auto why = self->over()) {
    cell->set_error(*why);
    co_return;
  }
  wire::Message ask = std::move(place);
  auto answer = co_await self->node_->request(std::move(ask), std::vector<Fd>{}, async::Deadline::never());
  if (!answer) {
    const auto why = self->over();
    cell->set_error(why ? *why : std::move(answer).error());
    co_return;
  }
  const auto* const ready = std::get_if<wire::GroupReady>(&answer->message);
  if (ready == nullptr) {
    cell->set_error(
        Error{ErrorCode::kInternal, "the node answered the request for a placement group with an unexpected message"});
    co_return;
  }
  Encoder nodes;
  Codec<std::vector<NodeId>>::encode(ready->nodes, nodes);
  cell->set_value(nodes, {});
}

}  // namespace detail

GroupId PlacementGroup::id() const {
  return handle_ == nullptr ? GroupId{} : handle_->id();
}
std::size_t PlacementGroup::size() const {
  return handle_ == nullptr ? 0 : handle_->size();
}
const Ref<std::vector<NodeId>>& PlacementGroup::nodes() const {
  if (handle_ == nullptr) throw InvalidArgument{Error{ErrorCode::kInvalidArgument, "this PlacementGroup is empty"}};
  return handle_->nodes();
}
void PlacementGroup::remove() const {
  if (handle_ != nullptr) handle_->remove();
}

}  // namespace pharos
