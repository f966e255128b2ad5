#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <tuple>

#include <pharos/base/error.hpp>
#include <pharos/base/id.hpp>

namespace pharos::object_store {

/// Which object: who made it, and its how manieth that is. Never used twice.
struct ObjectId {
  CallerId maker;
  std::uint64_t number = 0;

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};
std::string to_string(const ObjectId& id);

/// Where an object lies on its node: in this slot, while the slot has this generation.
struct Place {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;

  friend auto operator<=>(const Place&, const Place&) = default;
};

/// All that a process of the object's node needs to reach it. Sent as it lies in memory.
struct Location {
  ObjectId id;
  Place place;
  /// Who held it when this was written: if there is no such object any more, it may be because that process is no more.
  CallerId owner{};

  friend bool operator==(const Location& a, const Location& b) { return a.id == b.id && a.place == b.place; }
  friend auto operator<=>(const Location& a, const Location& b) {
    return std::tie(a.id, a.place) <=> std::tie(b.id, b.place);
  }
};

/// There is no such object any more: kOwnerDied or kObjectLost.
Error lost(const Location& location, bool owner_has_ended = false);

}  // namespace pharos::object_store
