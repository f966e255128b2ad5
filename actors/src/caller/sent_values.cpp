#include "caller/sent_values.hpp"

#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/actor.hpp>
#include <pharos/wire/error_codec.hpp>

#include "results/carried_actors.hpp"
#include "results/large_values.hpp"
#include "results/result_cell.hpp"

// Values on their way to other processes: their Refs, and their handles of actors. received_values.cpp is the other
// end.

namespace pharos::detail {

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

std::vector<CellHandle> pending_refs(Encoder& of) {
  std::vector<CellHandle> pending;
  for (Placeholder& placeholder : of.context()->placeholders) pending.push_back(std::move(placeholder.cell));
  of.context()->clear();
  return pending;
}

void encode_actor(const std::shared_ptr<ActorHandle>& actor, Encoder& to) {
  if (to.context() == nullptr || actor == nullptr) return to.fail(CodecFailure::kInvalid);
  Codec<actors::CarriedActor>::encode(actors::carried(*actor), to);
  to.context()->actors.push_back(actor);
}

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

}  // namespace pharos::detail
