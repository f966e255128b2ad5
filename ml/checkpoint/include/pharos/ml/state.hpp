#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/dtype.hpp>
#include <pharos/wire/bytes.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace pharos::ml {

/// What this rank has of a tensor that has the same name on all ranks: elements from `begin` on, in the order of their
/// memory.
struct StateSlice {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};  ///< of the tensor
  std::uint64_t begin = 0;
  std::span<std::byte> bytes{};  ///< where they lie: saved from there, and loaded to there
  /// All ranks have the same; one of them writes it.
  bool is_shared = false;
  /// It may change in a step before that counts, as a module's buffers do in forward.
  bool changes_early = false;
  /// What it is loaded from: the first of these that a checkpoint has. Empty: its own name.
  std::vector<std::string> from{};
  // Where the tensor itself is not in `bytes`, as on a GPU:
  std::function<void()> fetch{};  ///< fills `bytes` from the tensor
  std::function<void()> store{};  ///< fills the tensor from `bytes`
};

/// What a training goes on from: slices of tensors, and values of any type that has a codec. Names those that a
/// checkpoint has; owns nothing of them. Slices that are shared all ranks add in the same order. A name that is there
/// already is thrown as InvalidArgument.
class PHAROS_API State {
 public:
  void add(StateSlice slice);
  /// The same on all ranks: rank 0's is saved.
  template <class T>
  void add(std::string name, T& value) {
    add_value(std::move(name), value, false);
  }
  /// Another one on each rank. A rank that the checkpoint has none of keeps its own.
  template <class T>
  void add_of_rank(std::string name, T& value) {
    add_value(std::move(name), value, true);
  }
  struct Value {
    std::string name;
    bool is_of_rank = false;
    std::function<std::vector<std::byte>()> save{};
    std::function<void(std::span<const std::byte>)> load{};
  };
  void add(Value value);
  /// Called before slices are fetched to be saved, and after they were loaded and stored; in the order in which they
  /// were added.
  void before_save(std::function<void()> call) { before_save_.push_back(std::move(call)); }
  void after_load(std::function<void()> call) { after_load_.push_back(std::move(call)); }

  const std::vector<StateSlice>& slices() const { return slices_; }
  const std::vector<Value>& values() const { return values_; }
  /// Calls before_save()'s callbacks and fetches all slices.
  void call_before_save() const;
  /// The same, but fetches those slices alone that change early.
  void call_before_commit() const;
  void call_after_load() const;

 private:
  template <class T>
  void add_value(std::string name, T& value, bool is_of_rank) {
    const auto save = [name, &value] {
      auto bytes = to_bytes(value);
      if (!bytes) throw_error(std::move(bytes).error().with("saving \"" + name + "\""));
      return *std::move(bytes);
    };
    const auto load = [name, &value](std::span<const std::byte> bytes) {
      auto loaded = from_bytes<T>(bytes);
      if (!loaded) throw_error(std::move(loaded).error().with("loading \"" + name + "\""));
      value = *std::move(loaded);
    };
    add(Value{name, is_of_rank, save, load});
  }
  void take(const std::string& name);
  void call_and_fetch(bool early_alone) const;

  std::set<std::string> names_;
  std::vector<StateSlice> slices_;
  std::vector<Value> values_;
  std::vector<std::function<void()>> before_save_;
  std::vector<std::function<void()>> after_load_;
};

}  // namespace pharos::ml
