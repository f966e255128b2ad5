#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>

#include <pharos/base/id.hpp>

namespace pharos {

/// The identity of an object: its maker, and a number that the maker counts up with each object. Never used twice.
struct ObjectId {
  CallerId maker;
  std::uint64_t number = 0;

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

inline std::string to_string(const ObjectId& id) {
  return to_string(id.maker) + "/" + std::to_string(id.number);
}

/// The place of an object in its node's store: a slot, and the slot's generation. A slot gets a new generation for each
/// object, so an old place never refers to a newer object.
struct ObjectPlace {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;

  friend auto operator<=>(const ObjectPlace&, const ObjectPlace&) = default;
};

/// Everything that is needed to reach an object. Sent between processes exactly as it is in memory.
struct ObjectLocation {
  ObjectId id;
  ObjectPlace place;
  /// The process that held the object when this location was written. If the object is gone, the death of this process
  /// may be the reason. Comparisons ignore it.
  CallerId owner{};
  NodeId node{};

  friend bool operator==(const ObjectLocation& a, const ObjectLocation& b) {
    return a.id == b.id && a.place == b.place && a.node == b.node;
  }
  friend auto operator<=>(const ObjectLocation& a, const ObjectLocation& b) {
    return std::tie(a.id, a.place, a.node) <=> std::tie(b.id, b.place, b.node);
  }
};

}  // namespace pharos
