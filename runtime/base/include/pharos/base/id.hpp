#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include <pharos/base/export.hpp>

namespace pharos {

/// An identity of one kind. The type keeps it from being mixed up with identities of another kind or with numbers.
/// Zero means "no identity": a default-constructed Id converts to false.
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

/// Returns the value as sixteen hexadecimal digits, the form in which all identities are printed.
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
using CallerId = Id<struct CallerTag>;  ///< one source of numbered calls: a driver, a worker incarnation, a light actor
using TraceId = Id<struct TraceTag>;    ///< one call tree

}  // namespace pharos

template <class Tag>
struct std::hash<pharos::Id<Tag>> {
  std::size_t operator()(pharos::Id<Tag> id) const noexcept { return std::hash<std::uint64_t>{}(id.value()); }
};
