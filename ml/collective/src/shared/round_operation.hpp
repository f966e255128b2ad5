#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/ml/collective/backend.hpp>

#include "shared/meeting.hpp"
#include "shared/shared_task.hpp"

namespace pharos::ml {

/// An operation of all ranks of a machine, which goes in rounds: how its data is divided, and what this rank does with
/// the data of a round. It waits for nobody and cannot fail; Rounds says when a round's data can be read. The caller
/// holds it as its Work, and Rounds holds it until it has ended or all operations have failed. The memory of `places`
/// is used until then. One thread.
///
/// Operations go in one of three ways:
/// - One shot: each rank copies its data to its staging buffer, and reads the staging buffers of all others. The ranks
///   wait once. For an all_reduce of up to 8 KiB, and for all operations that neither other way serves. An all_reduce
///   of up to 16 bytes needs no staging buffer: its data travels in the lines of the Meeting.
/// - In place: more than 8 KiB in a window. Each rank reduces its part of all ranks' data and writes the result to all
///   ranks. Each byte is read once and written once, and the ranks wait twice.
/// - Two shot: an all_reduce of more than 8 KiB in other memory. It goes like in place, but in the staging buffers.
/// Data that is larger than a staging buffer goes in several rounds.
class RoundOperation final : public SharedTask {
 public:
  enum class Way : std::uint8_t { kInPlace, kOneShot, kTwoShot };

  static constexpr std::size_t kStagingBytes = std::size_t{1} << 20;
  /// Bytes of each rank. With more, it is faster to wait twice and not copy.
  static constexpr std::size_t kOneShotMax = 8 << 10;

  /// This rank is number `rank` of `ranks`.
  RoundOperation(const detail::Step& step, const detail::Places& places, std::uint32_t rank, std::uint32_t ranks);

  /// Returns the bytes of this rank that ranks would work on in place, if they lie in a window; empty if there are
  /// none.
  std::span<const std::byte> may_be_in_place() const;
  /// The operation goes in place: those bytes lie at `offset` of the window.
  void go_in_place(std::uint32_t window, std::size_t offset);

  const Operation& of() const { return of_; }
  Way way() const { return way_; }
  std::uint32_t window() const { return window_; }
  std::size_t rounds() const { return rounds_; }
  bool is_small() const;
  bool uses_staging() const { return way_ != Way::kInPlace && unit_ != 0 && !is_small(); }

  // In the present round.

  std::uint64_t round() const { return first_round + index_; }
  bool is_last_round() const { return index_ + 1 == rounds_; }
  /// What this rank publishes when it enters the round, without the place in its staging buffer.
  Said said() const;
  /// Copies this rank's data to its staging buffer.
  void stage(std::byte* buffer) const;
  /// One shot: computes the result from the staging buffers of all ranks, or from what they have said.
  void take_staged(std::span<std::byte* const> buffers) const;
  void take_said(std::span<const Said> said) const;
  /// The other ways: does this rank's share of the work, in the memory of all ranks. `pieces` has the staging buffers
  /// of all ranks, or their pieces of the window.
  void reduce_part(std::span<std::byte* const> pieces) const;
  /// Two shot: copies the result from this rank's staging buffer.
  void take_reduced(const std::byte* buffer) const;
  void next_round();

  bool is_held = false;           ///< Its data comes later: it waits in its place in the order of operations.
  std::size_t staging_set = 0;    ///< The set of staging buffers that it uses.
  std::uint64_t first_round = 0;  ///< The number of its first round.
  /// The phase of the round that this rank has reached; none before it has entered the round.
  std::optional<Meeting::Phase> phase{};
  std::byte* staging = nullptr;  ///< This rank's staging buffer for the round.

 private:
  std::size_t element() const { return size_of(operation_.dtype); }
  std::size_t part_begin() const { return index_ * part_max_; }
  std::size_t part_size() const { return std::min(part_max_, unit_ - part_begin()); }
  void reduce_piece(std::span<std::byte* const> data) const;

  const Operation operation_;
  const Operation of_;  // the whole operation, on which ranks agree
  const detail::Places places_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::size_t pieces_;  // pieces in a rank's data
  const std::size_t unit_;    // elements of a piece
  Way way_ = Way::kOneShot;
  std::uint32_t window_ = 0;  // kInPlace: the window and the offset of the data
  std::size_t offset_ = 0;
  std::size_t part_max_ = 0;  // the most elements of a piece in one round
  std::size_t rounds_ = 1;
  std::size_t index_ = 0;  // the present round, from 0
};

}  // namespace pharos::ml
