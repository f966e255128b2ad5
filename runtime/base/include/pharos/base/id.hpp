#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include <pharos/base/export.hpp>

namespace pharos {

/// An identity that cannot be mistaken for another kind of identity, or for a number.
/// Zero is no identity: a default-constructed Id is false.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::uint64_t value) : value_{value} {}

  constexpr std::uint64_t value() const { return value_; }
  constexpr explicit operator bool() const { return value_ != 0; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::uint64_t value_ = 0;
};

/// Sixteen hexadecimal digits, as identities are printed everywhere.
PHAROS_API std::string to_hex(std::uint64_t value);

template <class Tag>
std::string to_string(Id<Tag> id) {
  return to_hex(id.value());
}

using JobId = Id<struct JobTag>;        ///< one driver program
using NodeId = Id<struct NodeTag>;      ///< one machine's daemon
using WorkerId = Id<struct WorkerTag>;  ///< one worker process
using ActorId = Id<struct ActorTag>;    ///< one actor, through all its incarnations
using GroupId = Id<struct GroupTag>;    ///< one placement group
using CallerId = Id<struct CallerTag>;  ///< what calls are numbered by: a driver, a worker incarnation, a light actor
using TraceId = Id<struct TraceTag>;    ///< one call tree

}  // namespace pharos

template <class Tag>
struct std::hash<pharos::Id<Tag>> {
  std::size_t operator()(pharos::Id<Tag> id) const noexcept { return std::hash<std::uint64_t>{}(id.value()); }
};
