#include <algorithm>
#include <string>

#include <pharos/actors/actor.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/wire/error_codec.hpp>

#include "caller/caller.hpp"
#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"

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
    return caller->adopt(carried.id, carried.label, false);
  }
  from.fail(CodecFailure::kInvalid);
  return nullptr;
}

}  // namespace

// ---- Refs

void encode_ref(const CellHandle& cell, Encoder& to) {
  CodecContext* const context = to.context();
  if (context == nullptr || !cell) return to.fail(CodecFailure::kInvalid);
  if (context->keeps_placeholders || !cell.ready()) {
    context->placeholders.push_back({.what = Placeholder::kOutcome, .offset = to.size(), .cell = cell});
  } else {
    const auto value = cell.wait(Deadline::never());
    if (!value) return encode_failed_outcome(value.error(), to);
    begin_outcome(cell, value->bytes.size(), to);
    to.write_shared({std::make_shared<const std::pair<CellHandle, Encoded>>(cell, *value), value->bytes});
  }
}

void encode_failed_outcome(const Error& error, Encoder& to) {
  Codec<bool>::encode(false, to);
  Codec<Error>::encode(error, to);
}

void begin_outcome(const CellHandle& cell, std::size_t size, Encoder& to) {
  Codec<bool>::encode(true, to);
  const auto actors = cell->actors();
  actors::write_carried(actors, to);
  to.context()->actors.insert(to.context()->actors.end(), actors.begin(), actors.end());
  const auto count = cell->count();
  Codec<bool>::encode(count.has_value(), to);
  if (count) Codec<std::uint64_t>::encode(*count, to);
  encode_count(size, to);
}

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

std::vector<CellHandle> pending_refs(Encoder& of) {
  std::vector<CellHandle> pending;
  for (Placeholder& placeholder : of.context()->placeholders) pending.push_back(std::move(placeholder.cell));
  of.context()->clear();
  return pending;
}

// ---- Values of cells

class ValueEncoder::Room final : public actors::ObjectRoom {
 public:
  explicit Room(std::shared_ptr<actors::LargeValues> values) : values_{std::move(values)} {}

 private:
  std::shared_ptr<actors::LargeValues> values() override { return values_; }
  std::string label() const override { return "result of a callback, such as then()"; }
  const std::shared_ptr<actors::LargeValues> values_;
};

ValueEncoder::ValueEncoder(const CellHandle& cell) {
  if (auto values = cell->large_values()) room_ = std::make_unique<Room>(std::move(values));
  encoder_.set_large_room(room_.get());
  encoder_.set_context(&context_);
}

ValueEncoder::~ValueEncoder() = default;

// ---- Handles of actors

void encode_actor(const std::shared_ptr<ActorHandle>& actor, Encoder& to) {
  if (to.context() == nullptr || actor == nullptr) return to.fail(CodecFailure::kInvalid);
  Codec<actors::CarriedActor>::encode({actor->id(), actor->label()}, to);
  to.context()->actors.push_back(actor);
}

std::shared_ptr<ActorHandle> decode_actor(Decoder& from) {
  return receive_actor(Codec<actors::CarriedActor>::decode(from), from);
}

}  // namespace pharos::detail

namespace pharos::actors {

void write_carried(std::span<const std::shared_ptr<detail::ActorHandle>> actors, Encoder& to) {
  std::vector<CarriedActor> all;
  for (const auto& actor : actors) {
    const bool again = std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.id == actor->id(); });
    if (!again) all.push_back({actor->id(), actor->label()});
  }
  Codec<std::vector<CarriedActor>>::encode(all, to);
}

Result<std::vector<CarriedActor>> read_carried(std::span<const std::byte>& payload) {
  Decoder decoder{payload};
  auto actors = Codec<std::vector<CarriedActor>>::decode(decoder);
  if (decoder.failed()) return Error{ErrorCode::kCorrupt, "received a list of actors that cannot be decoded"};
  payload = payload.last(decoder.left());
  return actors;
}

}  // namespace pharos::actors
