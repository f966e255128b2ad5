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

/// The part of one tensor that this rank saves and loads: consecutive elements from `begin` on, in the order of their
/// memory. The tensor has the same name on all ranks. The slice must lie within the tensor; otherwise a save of it
/// fails, and Checkpoints::load() throws InvalidArgument.
struct StateSlice {
  std::string name;
  DType dtype{};
  std::vector<std::int64_t> shape{};  ///< the shape of the whole tensor
  std::uint64_t begin = 0;
  std::span<std::byte> bytes{};  ///< the memory that is saved from and loaded to
  /// All ranks have the same elements, and one of them writes the slice.
  bool is_shared = false;
  /// The slice may change during a step, before that step counts, as the buffers of a module do in the forward pass.
  bool changes_early = false;
  /// The names under which the slice may be saved; it is loaded from the first that a checkpoint has. Empty: `name`.
  std::vector<std::string> from{};
  // Set if the tensor itself is not in `bytes`, for example because it is on a GPU:
  std::function<void()> fetch{};  ///< copies the tensor to `bytes`
  std::function<void()> store{};  ///< copies `bytes` to the tensor
};

/// The data from which a training can go on: slices of tensors, and values of any type that has a codec. A State only
/// refers to the data, which the caller owns and keeps alive. The program, or a TrainContext, owns the State. All ranks
/// must add their shared slices in the same order. Adding a name that exists already throws InvalidArgument. One
/// thread: callbacks, fetch() and store() run on the thread that saves, loads or commits, and what they throw leaves
/// that function.
class PHAROS_API State {
 public:
  void add(StateSlice slice);
  /// Adds a value that is the same on all ranks; the value of rank 0 is saved.
  template <class T>
  void add(std::string name, T& value) {
    add_value(std::move(name), value, false);
  }
  /// Adds a value that differs from rank to rank. A rank keeps its present value if the checkpoint has none for this
  /// rank.
  template <class T>
  void add_of_rank(std::string name, T& value) {
    add_value(std::move(name), value, true);
  }
  /// A value as bytes. What `save` throws leaves the function that saves, on this rank alone. If `load` throws,
  /// Checkpoints::load() throws on all ranks, with the code of that exception (UserError if it is no
  /// pharos::Exception). Other values may have been loaded by then.
  struct Value {
    std::string name;
    bool is_of_rank = false;
    std::function<std::vector<std::byte>()> save{};
    std::function<void(std::span<const std::byte>)> load{};
  };
  void add(Value value);
  /// Callbacks, which are called in the order in which they were added: before the slices are fetched to be saved, and
  /// after the slices were loaded and stored.
  void before_save(std::function<void()> call) { before_save_.push_back(std::move(call)); }
  void after_load(std::function<void()> call) { after_load_.push_back(std::move(call)); }

  const std::vector<StateSlice>& slices() const { return slices_; }
  const std::vector<Value>& values() const { return values_; }
  /// Calls the callbacks of before_save() and fetches all slices.
  void call_before_save() const;
  /// As call_before_save(), but fetches only the slices that change early.
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
