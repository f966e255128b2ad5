#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pharos/actors/codec_context.hpp>
#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/store_client.hpp>
#include <pharos/wire/id_codec.hpp>

namespace pharos::actors {

/// An actor whose handle a result carries (FrameFlags::kCarriesActors). The receiver takes a share in the actor at once
/// and confirms that; until then the sender keeps its own share. A value.
struct CarriedActor {
  ActorId id;
  std::string label;
};

/// Returns what travels of a handle.
CarriedActor carried(const detail::ActorHandle& actor);

/// Writes the list of these actors, each once.
void write_carried(std::span<const std::shared_ptr<detail::ActorHandle>> actors, Encoder& to);
/// Reads the list at the beginning of the payload, and removes it there. kCorrupt if the bytes are no such list.
Result<std::vector<CarriedActor>> read_carried(std::span<const std::byte>& payload);

/// Keeps the handles that went out in results, and the objects that went to other nodes, by the number of the reply,
/// until the receiver has confirmed that its own share counts. Owned by an IncomingCalls or a RemoteCaller. Any thread.
/// let_go() of a number that is not kept does nothing. The destructor lets go of all.
class HandedOver {
 public:
  struct Kept {
    detail::ActorHandles actors{};
    std::shared_ptr<object_store::Object> object{};
  };
  void keep(std::uint64_t reply, Kept kept) {
    const std::lock_guard lock{mutex_};
    kept_.emplace(reply, std::move(kept));
  }
  void let_go(std::uint64_t reply) {
    std::unordered_map<std::uint64_t, Kept>::node_type gone;  // destroyed after the lock is released
    const std::lock_guard lock{mutex_};
    gone = kept_.extract(reply);
  }
  void let_go_of_all() {
    std::unordered_map<std::uint64_t, Kept> gone;
    const std::lock_guard lock{mutex_};
    gone.swap(kept_);
  }
  bool empty() const {
    const std::lock_guard lock{mutex_};
    return kept_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Kept> kept_;
};

}  // namespace pharos::actors
