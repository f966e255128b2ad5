#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/actors/runtime.hpp>
#include <pharos/actors/writable.hpp>
#include <pharos/ml/checkpoints.hpp>
#include <pharos/ml/state.hpp>

#include "caught.hpp"
#include "manifest.hpp"

namespace pharos::ml {

/// A copy of what this rank saves.
class StateCopy {
 public:
  /// In the object store, unless that is full.
  StateCopy(Runtime* runtime, std::size_t bytes);
  std::span<std::byte> span() { return {stored_ ? stored_->data() : own_.get(), bytes_}; }

 private:
  std::size_t bytes_;
  std::optional<Writable<std::byte>> stored_;
  std::unique_ptr<std::byte[]> own_;
};

/// What a rank is to write, and its copy.
struct Save {
  std::uint64_t number = 0;
  std::string id;
  Moment moment;
  RankPart part;
  std::unique_ptr<StateCopy> copy;
  std::string begun;                   ///< its folder, before it is a checkpoint
  Error no_memory = no_memory_left();  ///< to be said when none is left to say anything else
  bool is_said = false;                ///< in its folder, that this rank could not write its part

  /// Of the checkpoint.
  std::string name() const;
};

/// Where an entry of the part comes from.
struct StateSource {
  PartEntry entry;
  std::span<const std::byte> bytes;
};

/// What this rank writes: its own slices, its share of those that all have, and values, which it puts into `values`.
std::vector<StateSource> sources_of(const State& state, std::uint32_t rank, std::uint32_t ranks,
                                    std::vector<std::vector<std::byte>>& values);
/// Of the slices that are divided among the ranks by what they are: ranks that have others would each leave some to the
/// other.
std::int64_t hash_of_shared(const State& state);
/// What a value that is another one on each rank is called in a checkpoint.
std::string name_of_rank(const std::string& name, std::uint32_t rank);

}  // namespace pharos::ml
