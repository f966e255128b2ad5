#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/bell.hpp"
#include "shared/lines.hpp"

namespace pharos::ml {

/// The letters between the ranks of a machine. A letter is what one rank gives to another: one chunk of a message. The
/// letters from one rank to another are numbered from 1. A letter's line is used again by the letter `kLetters` later,
/// when the receiver has taken this one. The Meeting of each rank owns LetterLines over the same shared memory. Nothing
/// here waits or fails: Mail posts a letter only when its line is free, and reads one only when it is posted. One
/// thread, except is_posted() and is_taken().
class LetterLines {
 public:
  static constexpr std::size_t kLetters = 4;

  /// The number of lines in shared memory, zeros at first.
  static std::size_t lines_for(std::uint32_t ranks) { return (kLetters + 1) * ranks * ranks; }
  /// `lines` and `bell` outlive the object.
  LetterLines(Line* lines, Bell& bell, std::uint32_t rank, std::uint32_t ranks)
      : lines_{lines}, bell_{bell}, rank_{rank}, ranks_{ranks} {}

  void post(std::uint32_t to, std::uint64_t letter, const Said& said) {
    Line& line = line_of(rank_, to, letter);
    line.said = said;
    line.place.store(letter, std::memory_order_seq_cst);
    bell_.ring();
  }
  /// Returns a letter to this rank. Valid once is_posted(), until this rank takes it.
  Said posted(std::uint32_t from, std::uint64_t letter) const { return line_of(from, rank_, letter).said; }
  /// The letter has been read: its line and buffer can be used again.
  void take(std::uint32_t from, std::uint64_t letter) {
    last_taken(from, rank_).place.store(letter, std::memory_order_seq_cst);
    bell_.ring();
  }

  bool is_posted(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const {
    return line_of(from, to, letter).place.load(std::memory_order_seq_cst) >= letter;
  }
  bool is_taken(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const {
    return last_taken(from, to).place.load(std::memory_order_seq_cst) >= letter;
  }

 private:
  // First the lines of letters, then those with the number of the last letter that was taken.
  Line& line_of(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const {
    return lines_[(from * ranks_ + to) * kLetters + letter % kLetters];
  }
  Line& last_taken(std::uint32_t from, std::uint32_t to) const {
    return lines_[kLetters * ranks_ * ranks_ + from * ranks_ + to];
  }

  Line* const lines_;
  Bell& bell_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
};

}  // namespace pharos::ml
