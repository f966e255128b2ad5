#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/cell_handle.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/object_store/store_client.hpp>

#include "results/result_cell.hpp"

namespace pharos::actors {

class LargeValues;
class Lineage;

/// Runs tasks of one kind again. A Recipe keeps it alive; but it is used only until the Lineage's end.
class RunsAgain : public std::enable_shared_from_this<RunsAgain> {
 public:
  virtual ~RunsAgain() = default;
  /// Takes a task, whose arguments are complete. If it cannot be taken, its cell fails. Any thread.
  virtual void submit(detail::CellHandle cell) = 0;
};

/// Describes how a task's large result was made, so that it can be made again: by its call, by its arguments as they
/// were sent, and by the recipes of arguments that were results themselves. Shared by the cells of the result, and by
/// the recipes of results that were made from it. Any thread. The destructor takes the recipe out of the Lineage.
/// make_again() returns an empty handle if the Lineage is gone.
struct Recipe final : detail::Remake, std::enable_shared_from_this<Recipe> {
  ~Recipe() override;
  detail::CellHandle make_again(const Error& why) override;

  std::weak_ptr<Lineage> lineage;
  std::shared_ptr<RunsAgain> pool;
  ObjectId result;
  std::vector<std::byte> arguments;
  std::vector<std::shared_ptr<Recipe>> of_arguments;  // in the order of the arguments; keeps these recipes alive
  std::size_t depth = 0;                              // one more than that of the deepest of them; 0 without any
  // Guarded by the mutex of the Lineage.
  detail::ResultCell::Call call;
  detail::CellHandle again;  // the cell of the last attempt to make the result again; empty before the first
};

/// The recipes of all large results of a caller's tasks that may run again. A lost result is made again when it is
/// read, or when a call needs it as an argument. A result keeps those objects of its call's arguments alive that have
/// no recipe, or one at kDepthMax; the others are made again themselves.
/// Owned by the caller. Any thread. Bounds: chains of results that were made from results are followed to a depth of
/// kDepthMax. end() cancels what is being made again, and waits for it; nothing is made again afterwards. If that takes
/// more than 10 s, end() aborts the process. The executor and the LargeValues must outlive this.
class Lineage final : public std::enable_shared_from_this<Lineage> {
 public:
  static constexpr std::size_t kDepthMax = 64;

  Lineage(async::Executor& executor, LargeValues& values, std::function<detail::CellHandle()> new_cell)
      : executor_{executor}, values_{values}, new_cell_{std::move(new_cell)}, background_{executor} {}

  /// Makes a recipe for the result of the cell's call, which lies in this object. Returns an empty Remakable if the
  /// task has no max_retries, or after end().
  detail::Remakable note(std::shared_ptr<RunsAgain> pool, const detail::ResultCell& cell, const ObjectId& result);
  /// Makes the result again, and returns its cell, pending or ready. If it is being made again already, or has been,
  /// returns that cell. If the call has no retries left, or after end(), returns a cell with the error `why`. Each time
  /// counts as a retry of the call. If an argument cannot be brought or made again, the cell gets that error.
  detail::CellHandle make_again(const std::shared_ptr<Recipe>& recipe, const Error& why);
  /// Repairs a call that did not begin because an argument was lost: makes the lost arguments again, and submits the
  /// call again. If a lost argument cannot be made again, the cell gets that error; if none is lost, or after end(), it
  /// gets `why`.
  void repair(std::shared_ptr<RunsAgain> pool, detail::CellHandle cell, const Error& why);
  void end();

 private:
  friend struct Recipe;
  struct Restored {
    std::vector<std::byte> arguments;
    bool changed = false;
  };
  std::shared_ptr<Recipe> find(const ObjectId& result);
  async::Async<void> make(detail::CellHandle cell, std::shared_ptr<Recipe> recipe);
  async::Async<void> repair_call(std::shared_ptr<RunsAgain> pool, detail::CellHandle cell, Error why);
  /// Returns the arguments of the cell's call, with the locations of objects that exist. The cell keeps these objects.
  async::Async<Result<Restored>> restore(detail::CellHandle cell, std::vector<std::byte> arguments);
  static void complete(const detail::CellHandle& cell, std::span<const std::byte> arguments);

  async::Executor& executor_;
  LargeValues& values_;
  const std::function<detail::CellHandle()> new_cell_;
  std::mutex mutex_;
  bool ended_ = false;
  std::map<ObjectId, std::weak_ptr<Recipe>> recipes_;
  async::AsyncGroup background_;
};

}  // namespace pharos::actors
