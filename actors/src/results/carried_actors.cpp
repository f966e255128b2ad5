#include "results/carried_actors.hpp"

#include <algorithm>
#include <utility>

#include <pharos/wire/codec.hpp>

namespace pharos::actors {

void write_carried(std::span<const std::shared_ptr<detail::ActorHandle>> actors, Encoder& to) {
  std::vector<CarriedActor> all;
  for (const auto& actor : actors) {
    CarriedActor each = carried(*actor);
    const bool again = std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.id == each.id; });
    if (!again) all.push_back(std::move(each));
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
