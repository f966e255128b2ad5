#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/wire/error_codec.hpp>

#include "caller/actor_handle.hpp"
#include "caller/caller.hpp"
#include "groups/group_core.hpp"
#include "groups/group_handle.hpp"
#include "groups/reservation.hpp"
#include "results/result_cell.hpp"

// Groups as arguments and results.

namespace pharos::detail {
namespace {

/// An actor group that another process has sent: the members of one term. It keeps their actors. Any thread.
class SentGroup final : public GroupCore {
 public:
  SentGroup(const std::shared_ptr<Caller>& caller, std::shared_ptr<const GroupTerm> term)
      : GroupCore{caller}, term_{std::move(term)} {}

  std::shared_ptr<const GroupTerm> term() override {
    const std::lock_guard lock{mutex_};
    return term_;
  }
  CellHandle resize(std::size_t) override {
    CellHandle made = new_cell();
    made.set_error({ErrorCode::kFailedPrecondition, "this process has not made the group",
                    "The process that has made a group can resize it."});
    return made;
  }
  void end(std::optional<Duration> grace) override {
    const std::lock_guard lock{mutex_};
    auto ended = std::make_shared<GroupTerm>(*term_);
    if (!ended->failed) {
      ended->failed = Error{ErrorCode::kActorDied,
                            std::string{"the group was "} + (grace ? "stopped" : "killed") + " by this program"};
    }
    for (const auto& actor : ended->actors) {
      if (grace) {
        actor->stop(*grace);
      } else {
        actor->kill();
      }
    }
    term_ = std::move(ended);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const GroupTerm> term_;
};

/// Returns the Caller of the value that is decoded; null if there is none, and the decoder has failed then.
std::shared_ptr<Caller> caller_of(Decoder& from) {
  auto caller = from.context() == nullptr ? caller_of_worker() : Caller::of(*from.context()->decodes);
  if (caller == nullptr) from.fail(CodecFailure::kInvalid);
  return caller;
}

/// What travels of an actor group, beside its actors.
struct SentTerm {
  Member place{};
  std::optional<Error> failed{};
  std::vector<std::pair<std::string, std::uint64_t>> dimensions{};

  auto pharos_fields() { return std::tie(place, failed, dimensions); }
};

}  // namespace

void encode_group(const std::shared_ptr<GroupCore>& core, Encoder& to) {
  if (core == nullptr) return to.fail(CodecFailure::kInvalid);
  const auto term = core->term();
  SentTerm sent{.place = term->place, .failed = term->failed};
  for (const Dimension& each : term->dimensions) sent.dimensions.emplace_back(each.name, each.size);
  Codec<SentTerm>::encode(sent, to);
  for (const auto& actor : term->actors) encode_actor(actor, to);
}

std::shared_ptr<GroupCore> decode_group(Decoder& from) {
  SentTerm sent = Codec<SentTerm>::decode(from);
  auto term = std::make_shared<GroupTerm>();
  term->place = sent.place;
  term->failed = std::move(sent.failed);
  for (auto& [name, size] : sent.dimensions)
    term->dimensions.push_back({std::move(name), static_cast<std::size_t>(size)});
  for (std::uint32_t rank = 0; rank < term->place.size && !from.failed(); ++rank) {
    term->actors.push_back(decode_actor(from));
  }
  const auto caller = from.failed() ? nullptr : caller_of(from);
  return caller == nullptr ? nullptr : std::make_shared<SentGroup>(caller, std::move(term));
}

void encode_placement_group(const std::shared_ptr<GroupHandle>& handle, Encoder& to) {
  Codec<bool>::encode(handle != nullptr, to);
  if (handle == nullptr) return;
  handle->note_sent();
  Codec<GroupId>::encode(handle->id(), to);
  Codec<std::uint64_t>::encode(handle->size(), to);
  encode_ref(handle->nodes().cell(), to);
}

std::shared_ptr<GroupHandle> decode_placement_group(Decoder& from) {
  if (!Codec<bool>::decode(from) || from.failed()) return nullptr;
  const GroupId id = Codec<GroupId>::decode(from);
  const auto size = static_cast<std::size_t>(Codec<std::uint64_t>::decode(from));
  const CellHandle nodes = decode_ref(from);
  const auto caller = from.failed() ? nullptr : caller_of(from);
  return caller == nullptr ? nullptr : actors::adopt(caller->shared_line(), id, size, nodes);
}

}  // namespace pharos::detail
