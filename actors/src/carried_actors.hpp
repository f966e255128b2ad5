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
#include <pharos/object_store/lessee.hpp>
#include <pharos/wire/id_codec.hpp>

namespace pharos {

namespace detail {
// A result that is there, where a Ref belongs: whether it is a value; then the error, or the actors that the value
// carries, its count if it has one apart, and how many bytes it has, which come next.
void encode_failed_outcome(const Error& error, Encoder& to);
void begin_outcome(const CellHandle& cell, std::size_t size, Encoder& to);
}  // namespace detail

namespace actors {

/// An actor of which a result holds a handle (FrameFlags::kCarriesActors): whoever receives it takes a share in the
/// actor at once, and says so, until when the sender keeps its own.
struct CarriedActor {
  ActorId id;
  std::string label;
};

/// Each once.
void write_carried(std::span<const std::shared_ptr<detail::ActorHandle>> actors, Encoder& to);
/// Takes them off the payload's beginning.
Result<std::vector<CarriedActor>> read_carried(std::span<const std::byte>& payload);

/// Handles that went out in results, and objects that went to other nodes, until whoever received them has told its
/// node so. Any thread.
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
    std::unordered_map<std::uint64_t, Kept>::node_type gone;  // after the lock
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

}  // namespace actors
}  // namespace pharos
