#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// A model whose numbers tell their step and their place. Each rank has a slice of `weight` and `narrow`, and all of
/// `norm`.
class PlainModel {
 public:
  static constexpr std::int64_t kRows = 37;
  static constexpr std::int64_t kColumns = 11;
  static constexpr std::int64_t kElements = kRows * kColumns;

  PlainModel(std::uint32_t rank, std::uint32_t ranks, std::uint64_t step = 0, std::int64_t factor = 1)
      : rank_{rank}, factor_{factor} {
    begin_ = begin_of(rank, ranks);
    weight_.resize(begin_of(rank + 1, ranks) - begin_);
    narrow_.resize(weight_.size());
    set(step);
  }
  void set(std::uint64_t step) {
    step_ = step;
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      weight_[i] = weight(step, begin_ + i);
      narrow_[i] = static_cast<std::uint8_t>(begin_ + i + step);
    }
    for (std::size_t i = 0; i < norm_.size(); ++i) norm_[i] = norm(step, i);
    note_ = "at step " + std::to_string(step);
    own_ = {rank_, step};
  }
  /// Expects that all numbers are those of this step.
  void expect(std::uint64_t step, bool own_too = true) const {
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      ASSERT_EQ(weight_[i], weight(step, begin_ + i)) << i;
      ASSERT_EQ(narrow_[i], static_cast<std::uint8_t>(begin_ + i + step)) << i;
    }
    for (std::size_t i = 0; i < norm_.size(); ++i) ASSERT_EQ(norm_[i], norm(step, i)) << i;
    EXPECT_EQ(note_, "at step " + std::to_string(step));
    EXPECT_EQ(step_, step);
    if (own_too) {
      EXPECT_EQ(own_, (std::vector<std::uint64_t>{rank_, step}));
    }
  }
  const std::vector<std::uint64_t>& own() const { return own_; }
  State state() {
    State state;
    const std::vector<std::int64_t> shape{kRows * factor_, kColumns};
    state.add({.name = "model.weight", .dtype = DType::kF32, .shape = shape, .begin = begin_, .bytes = of(weight_)});
    state.add({.name = "model.narrow", .dtype = DType::kU8, .shape = shape, .begin = begin_, .bytes = of(narrow_)});
    state.add({.name = "model.norm", .dtype = DType::kF64, .shape = {7}, .bytes = of(norm_), .is_shared = true});
    state.add("note", note_);
    state.add("step", step_);
    state.add_of_rank("own", own_);
    return state;
  }

  static float weight(std::uint64_t step, std::uint64_t place) {
    return static_cast<float>(step) * 1000 + static_cast<float>(place);
  }
  static double norm(std::uint64_t step, std::size_t place) {
    return static_cast<double>(step) + 0.1 * static_cast<double>(place);
  }

 private:
  std::uint64_t begin_of(std::uint32_t rank, std::uint32_t ranks) const {
    return static_cast<std::uint64_t>(kElements * factor_) * rank / ranks;
  }
  template <class T>
  static std::span<std::byte> of(std::vector<T>& values) {
    return std::as_writable_bytes(std::span{values});
  }

  std::uint32_t rank_;
  std::int64_t factor_;  // multiplies the number of rows
  std::uint64_t begin_;
  std::vector<float> weight_;
  std::vector<std::uint8_t> narrow_;
  std::vector<double> norm_ = std::vector<double>(7);
  std::string note_;
  std::uint64_t step_ = 0;
  std::vector<std::uint64_t> own_;
};

}  // namespace pharos::ml
