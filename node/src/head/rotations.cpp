#include "head/rotations.hpp"

#include <utility>

#include <pharos/net/token_ring.hpp>

#include "head/head_keys.hpp"

namespace pharos::node::head {

Result<void> Rotations::add(wire::RotateToken rotated) {
  if (rotated.sealed.size() != net::kSealedBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "a sealed token has " + std::to_string(net::kSealedBytes) + " bytes, and this one " +
                     std::to_string(rotated.sealed.size()),
                 "Give the cluster a new token with \"pharos token rotate\"."};
  }
  rotated.number = kept_.empty() ? 1 : kept_.rbegin()->first + 1;
  events_.put(rotation_key(rotated.number), rotated);
  kept_.emplace(rotated.number, std::move(rotated));
  if (kept_.size() <= kKeptMax) return {};
  events_.erase(rotation_key(kept_.begin()->first));
  kept_.erase(kept_.begin());
  return {};
}

bool Rotations::restore(const wire::RotateToken& rotated) {
  return rotated.sealed.size() == net::kSealedBytes && kept_.size() < kKeptMax &&
         kept_.emplace(rotated.number, rotated).second;
}

}  // namespace pharos::node::head
