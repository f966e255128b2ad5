#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>

#include <pharos/base/id.hpp>

namespace pharos {

/// Which object: who made it, and its how manieth that is. Never used twice.
struct ObjectId {
  CallerId maker;
  std::uint64_t number = 0;

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

inline std::string to_string(const ObjectId& id) {
  return to_string(id.maker) + "/" + std::to_string(id.number);
}

/// Where an object lies in its node's store: in this slot, while the slot has this generation.
struct ObjectPlace {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;

  friend auto operator<=>(const ObjectPlace&, const ObjectPlace&) = default;
};

/// All that is needed to reach an object. Sent as it lies in memory.
struct ObjectLocation {
  ObjectId id;
  ObjectPlace place;
  /// Who held it when this was written: if there is no such object any more, it may be because that process is no more.
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
