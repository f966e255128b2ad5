#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/wire/error_codec.hpp>

#include "caller/caller.hpp"
#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"

// Values that have come from other processes: their Refs, and their handles of actors. sent_values.cpp is the other
// end.

namespace pharos::detail {
namespace {

// The handles in a result were received when the result came. Those in arguments are received now.
std::shared_ptr<ActorHandle> receive_actor(const actors::CarriedActor& carried, Decoder& from) {
  if (from.failed()) return nullptr;
  if (from.context() != nullptr) {
    const auto actors = (*from.context()->decodes)->actors();
    const auto found =
        std::find_if(actors.begin(), actors.end(), [&](const auto& actor) { return actor->id() == carried.id; });
    if (found != actors.end()) return *found;
  } else if (const auto caller = caller_of_worker()) {
    return caller->actors().adopt(carried.id, carried.label, false);
  }
  from.fail(CodecFailure::kInvalid);
  return nullptr;
}

}  // namespace

CellHandle decode_ref(Decoder& from) {
  const CodecContext* const context = from.context();
  const auto caller = context == nullptr ? caller_of_worker() : nullptr;
  if (context == nullptr && caller == nullptr) from.fail(CodecFailure::kInvalid);
  if (from.failed()) return {};
  CellHandle cell = context == nullptr ? caller->new_cell() : context->decodes->sibling();
  if (!Codec<bool>::decode(from)) {
    cell->set_error(Codec<Error>::decode(from));
    return from.failed() ? CellHandle{} : cell;
  }
  ActorHandles actors;
  for (const auto& carried : Codec<std::vector<actors::CarriedActor>>::decode(from)) {
    actors.push_back(receive_actor(carried, from));
  }
  const bool counted = Codec<bool>::decode(from);
  const std::uint64_t count = counted ? Codec<std::uint64_t>::decode(from) : 0;
  Bytes bytes = Codec<Bytes>::decode(from);
  if (from.failed()) return {};
  const auto values = bytes.size() < kSharedBytesMin ? nullptr : cell->large_values();
  if (auto object = values == nullptr ? nullptr : values->object_with(bytes.span())) {
    const std::size_t begin = object->offset_of(bytes.span());
    cell->set_stored({std::move(object), begin, bytes.size()}, counted ? std::optional{count} : std::nullopt,
                     std::move(actors), {});
  } else if (counted) {
    cell->set_elements(count, std::move(bytes), std::move(actors));
  } else if (bytes.size() < kSharedBytesMin) {
    cell->set_value(bytes.span(), std::move(actors));
  } else {
    cell->set_value(std::move(bytes), std::move(actors));
  }
  return cell;
}

std::shared_ptr<ActorHandle> decode_actor(Decoder& from) {
  return receive_actor(Codec<actors::CarriedActor>::decode(from), from);
}

}  // namespace pharos::detail
