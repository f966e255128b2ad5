#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/ref.hpp>
#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>
#include <pharos/object_store/lessee.hpp>

#include "result_cell.hpp"

namespace pharos::actors {

class LargeValues;
class Recipes;
class TaskPool;

/// What was made again does not fit in the place of what was lost.
Error made_differently();

/// How a task's large result was made: its call, and its arguments as they were sent. Of arguments that were results
/// themselves, how those were made. Shared by the results that it made, and by the recipes of what was made of those.
struct Recipe {
  ~Recipe();

  std::weak_ptr<Recipes> recipes;
  TaskPool* pool = nullptr;  // lasts as long as the recipes
  ObjectId result;
  std::vector<std::byte> arguments;
  std::vector<std::shared_ptr<Recipe>> of_arguments;  // newest results last
  std::size_t depth = 0;
  // Under the recipes' mutex.
  detail::ResultCell::Call call;
  detail::CellHandle again;  // that it was last made as
};

/// Of all large results of a caller's tasks that may run again, so that what is lost is made again: when it is read, or
/// when it was to be an argument. A result keeps the objects that its call has of its own; arguments that were results
/// are made again themselves.
/// Owned by the caller. Any thread. Bounds: a result of results of results, and so on, is made again to kDepthMax.
/// End: end(); from then on nothing is made again.
class Recipes final : public std::enable_shared_from_this<Recipes> {
 public:
  static constexpr std::size_t kDepthMax = 64;

  Recipes(async::Executor& executor, LargeValues& values, std::function<detail::CellHandle()> new_cell)
      : executor_{executor}, values_{values}, new_cell_{std::move(new_cell)}, background_{executor} {}

  /// For the result of the cell's call, which lies in this object. Nothing if it may not run again.
  detail::Remakable note(TaskPool& pool, const detail::ResultCell& cell, const ObjectId& result);
  /// The result anew, pending or there; or why not.
  detail::CellHandle make_again(const std::shared_ptr<Recipe>& recipe, const Error& why);
  /// Of a call that was not begun because of its arguments: those that are lost are made again, and it is sent again.
  /// None of them can be: it fails.
  void repair(TaskPool& pool, detail::CellHandle cell, const Error& why);
  void end();

 private:
  friend struct Recipe;
  struct Restored {
    std::vector<std::byte> arguments;
    bool changed = false;
  };
  std::shared_ptr<Recipe> find(const ObjectId& result);
  static async::Async<void> make(Recipes* self, detail::CellHandle cell, std::shared_ptr<Recipe> recipe);
  static async::Async<void> repair(Recipes* self, TaskPool* pool, detail::CellHandle cell, Error why);
  /// The arguments of the cell's call, in objects that are there, which the cell keeps.
  static async::Async<Result<Restored>> restore(Recipes* self, detail::CellHandle cell,
                                                std::vector<std::byte> arguments);
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
