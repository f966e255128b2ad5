#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/ml/collective/operation.hpp>

#include "stream/stream.hpp"

namespace pharos::ml {

/// Ranks that do operations together: all ranks, or those of a lane. A value.
struct Team {
  std::vector<std::uint32_t> ranks{};
  std::uint32_t own = 0;  ///< The place of this rank.

  /// Returns the place of a rank in the team; nullopt if it is not in the team.
  std::optional<std::uint32_t> place_of(std::uint32_t rank) const {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - ranks.begin());
  }
};

/// A sequence of operations that are numbered together: those of all ranks, those of the lane, or the messages between
/// two ranks in one direction.
using Row = std::uint32_t;

/// Identifies an operation of this rank.
struct OperationId {
  Row row = 0;
  std::uint64_t number = 0;  ///< Its number in the row, from 1.
  auto operator<=>(const OperationId&) const = default;
};

/// The teams of a rank, and the rows in which it counts its operations. A StreamBackend owns it. It does not change,
/// and nothing fails; any thread.
class StreamRows {
 public:
  /// `lane` has the ranks of this rank's lane; empty if there are no lanes.
  StreamRows(std::uint32_t rank, std::uint32_t ranks, std::vector<std::uint32_t> lane) : rank_{rank} {
    for (std::uint32_t each = 0; each < ranks; ++each) all_.ranks.push_back(each);
    all_.own = rank;
    lane_.ranks = std::move(lane);
    lane_.own = lane_.place_of(rank).value_or(0);
  }

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(all_.ranks.size()); }
  /// Returns the team whose places the ranks of an operation are. It lives as long as this object.
  const Team& team(Among among) const { return among == Among::kLane ? lane_ : all_; }
  /// Rows are below this number.
  std::size_t count() const { return 2 + 2 * all_.ranks.size(); }

  /// Returns the row of an operation that this rank begins.
  Row row_of(Among among, const Operation& operation) const {
    if (among != Among::kTwo) return row_of_data(among, rank_);
    return operation.root == rank_ ? row_to(operation.to) : row_from(operation.root);
  }
  /// Returns the row of an operation of this rank and `other`. Nullopt if they do not do it together: for a message
  /// that is not between these two, and for an operation of a lane that `other` is not in.
  std::optional<Row> row_with(std::uint32_t other, Among among, const Operation& operation) const {
    switch (among) {
      case Among::kAll: return kAllRow;
      case Among::kLane: return lane_.place_of(other) ? std::optional{lane_row()} : std::nullopt;
      case Among::kTwo: break;
    }
    if (operation.root == rank_ && operation.to == other) return row_to(other);
    if (operation.root == other && operation.to == rank_) return row_from(other);
    return std::nullopt;
  }
  /// Returns the row of an operation of which data comes from `from`.
  Row row_of_data(Among among, std::uint32_t from) const {
    if (among == Among::kAll) return kAllRow;
    return among == Among::kLane ? lane_row() : row_from(from);
  }

 private:
  static constexpr Row kAllRow = 0;
  static Row row_to(std::uint32_t rank) { return 1 + 2 * rank; }
  static Row row_from(std::uint32_t rank) { return 2 + 2 * rank; }
  Row lane_row() const { return 1 + 2 * ranks(); }

  const std::uint32_t rank_;
  Team all_;
  Team lane_;
};

}  // namespace pharos::ml
