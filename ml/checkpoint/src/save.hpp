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
#include <pharos/ml/checkpoint_options.hpp>
#include <pharos/ml/state.hpp>

#include "caught.hpp"
#include "manifest.hpp"

namespace pharos::ml {

/// The memory for a copy of what this rank saves. Owned by the Save until the save has ended, and then by SaveWriter,
/// which keeps the memory for a later save. One thread at a time. The destructor gives the memory back; the Runtime
/// must outlive it.
class StateCopy {
 public:
  /// Takes memory of the object store of `runtime`, or of this process if that is null or its store is full. Throws
  /// std::bad_alloc if this process has no memory either, and any other error of the store.
  StateCopy(Runtime* runtime, std::size_t bytes);
  std::span<std::byte> span() { return {stored_ ? stored_->data() : own_.get(), bytes_}; }

 private:
  std::size_t bytes_;
  std::optional<Writable<std::byte>> stored_;
  std::unique_ptr<std::byte[]> own_;
};

/// One save of this rank: what to write, and the copied bytes. Owned by Checkpoints until SaveWriter::write(), and then
/// by SaveWriter.
struct Save {
  std::uint64_t number = 0;
  std::string id;
  Moment moment;
  RankPart part;
  std::unique_ptr<StateCopy> copy;
  std::string begun;  ///< the name of its folder until it is a checkpoint
  /// The error for the case that no memory is left; made in advance.
  Error no_memory = no_memory_left();
  /// A file in the save's folder says that this rank could not write its part.
  bool is_said = false;

  /// The name of the checkpoint.
  std::string name() const;
};

/// An entry of the part, and the bytes that it is copied from.
struct StateSource {
  PartEntry entry;
  std::span<const std::byte> bytes;
};

/// Returns what this rank writes: its own slices, its share of the shared slices, and values. The bytes of values are
/// put into `values`, which must be empty before. The result refers to the memory of `state` and of `values`. Called on
/// the thread that saves; throws what State::Value::save throws.
std::vector<StateSource> sources_of(const State& state, std::uint32_t rank, std::uint32_t ranks,
                                    std::vector<std::vector<std::byte>>& values);
/// Returns a hash of the shared slices. Each rank decides by itself which of them it writes, so all ranks must have the
/// same ones: otherwise some slices would be written by no rank.
std::int64_t hash_of_shared(const State& state);
/// Returns the name in a checkpoint of a value that differs from rank to rank.
std::string name_of_rank(const std::string& name, std::uint32_t rank);

}  // namespace pharos::ml
