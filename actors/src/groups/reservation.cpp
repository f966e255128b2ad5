#include "groups/reservation.hpp"

#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/random.hpp>
#include <pharos/scheduler/actor_table.hpp>
#include <pharos/wire/codec.hpp>

#include "caller/refused.hpp"
#include "caller/shape.hpp"
#include "results/result_cell.hpp"

namespace pharos::actors {
namespace {

using detail::CellHandle;

async::Async<void> place_group(NodeLine* line, CellHandle cell, wire::PlaceGroup place) {
  if (const auto why = line->over()) {
    cell->set_error(*why);
    co_return;
  }
  wire::Message ask = std::move(place);
  auto answer = co_await line->request(std::move(ask));
  if (!answer) {
    const auto why = line->over();
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

std::shared_ptr<detail::GroupHandle> handle_of(const std::shared_ptr<NodeLine>& line, GroupId id, std::size_t size,
                                               const CellHandle& nodes) {
  return std::make_shared<detail::GroupHandle>(id, size, nodes, [weak = std::weak_ptr{line}, id] {
    const auto there = weak.lock();
    if (there != nullptr && !there->abandoned()) there->tell(wire::RemoveGroup{id});
  });
}

}  // namespace

std::shared_ptr<detail::GroupHandle> reserve(const std::shared_ptr<NodeLine>& line, const CellHandle& nodes,
                                             const GroupOptions& options) {
  if (line->abandoned()) throw_error(forked());
  if (const auto named = scheduler::check_name(options.name); !named) {
    throw_error(Error{named.error()}.with("reserving resources"));
  }
  wire::PlaceGroup place{.group = GroupId{random_u64()}, .label = options.name, .strategy = options.strategy};
  const auto wait = Shape::wait_of(options.wait_for_nodes);
  if (!wait) throw_error(Error{wait.error()}.with("reserving resources"));
  for (const Bundle& bundle : options.bundles) {
    const auto shape = Shape::of(bundle);
    if (!shape) throw_error(Error{shape.error()}.with("reserving resources"));
    place.bundles.push_back(shape->to_wire());
    place.bundles.back().wait_ms = *wait;
  }
  auto handle = handle_of(line, place.group, place.bundles.size(), nodes);
  nodes->on_cancel([weak = std::weak_ptr{handle}] {
    if (const auto group = weak.lock()) group->remove();
  });
  line->spawn(place_group(line.get(), nodes, std::move(place)));
  return handle;
}

std::shared_ptr<detail::GroupHandle> adopt(const std::shared_ptr<NodeLine>& line, GroupId id, std::size_t size,
                                           const CellHandle& nodes) {
  auto handle = handle_of(line, id, size, nodes);
  handle->note_sent();
  return handle;
}

}  // namespace pharos::actors
