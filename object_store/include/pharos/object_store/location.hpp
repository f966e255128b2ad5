#pragma once

#include <compare>
#include <cstdint>
#include <string>

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

  friend auto operator<=>(const Location&, const Location&) = default;
};

}  // namespace pharos::object_store
