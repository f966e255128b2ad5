#pragma once

#include <cstdint>
#include <map>

#include <pharos/base/id.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "head/events.hpp"

namespace pharos::node::head {

/// The last new tokens that users have given the cluster. The head cannot read them: each is encrypted with the one
/// before it, and it passes them on to the nodes in their order, also to each node that joins, which may have missed
/// some. A node ignores those that it has.
/// Owned by NodeTable; on the strand of the head. Bound: the last kKeptMax are kept. A node that was away for more of
/// them knows no valid token any more.
class Rotations {
 public:
  static constexpr std::size_t kKeptMax = 16;

  explicit Rotations(Events& events) : events_{events} {}

  /// Keeps a new token. kInvalidArgument if it cannot be one.
  Result<void> add(wire::RotateToken rotated);
  /// Keeps one from the records. Returns false if it cannot be one.
  bool restore(const wire::RotateToken& rotated);
  /// In their order. The number of each is its place among all of them.
  const std::map<std::uint64_t, wire::RotateToken>& all() const { return kept_; }

 private:
  Events& events_;
  std::map<std::uint64_t, wire::RotateToken> kept_;
};

}  // namespace pharos::node::head
