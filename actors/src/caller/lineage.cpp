#include "caller/lineage.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <pharos/async/completion.hpp>

#include "caller/refused.hpp"
#include "results/large_values.hpp"
#include "results/pieces.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using detail::CellHandle;
using detail::Remakable;
using detail::ResultCell;

constexpr auto kMakingEndTime = 10s;

async::Async<void> until_there(CellHandle cell) {
  async::Completion<void> there;
  cell.when_ready([there]() mutable { there.complete(); });
  [[maybe_unused]] const auto waited = co_await there.wait(async::Deadline::never());
}

}  // namespace

Recipe::~Recipe() {
  const auto there = lineage.lock();
  if (there == nullptr) return;
  const std::lock_guard lock{there->mutex_};
  there->recipes_.erase(result);
}

CellHandle Recipe::make_again(const Error& why) {
  const auto there = lineage.lock();
  return there == nullptr ? CellHandle{} : there->make_again(shared_from_this(), why);
}

std::shared_ptr<Recipe> Lineage::find(const ObjectId& result) {
  const std::lock_guard lock{mutex_};
  const auto found = recipes_.find(result);
  return found == recipes_.end() ? nullptr : found->second.lock();
}

Remakable Lineage::note(std::shared_ptr<RunsAgain> pool, const ResultCell& cell, const ObjectId& result) {
  if (cell.call().max_retries == 0) return {};
  const auto recipe = std::make_shared<Recipe>();
  recipe->pool = std::move(pool);
  recipe->result = result;
  recipe->call = static_cast<const detail::CallDescription&>(cell.call());
  recipe->call.deadline = async::Deadline::never();
  recipe->arguments.assign(cell.arguments().begin(), cell.arguments().end());
  if ((cell.call().flags & wire::kInPieces) != 0) {
    const auto read = read_pieces(recipe->arguments);
    PHAROS_CHECK(read.ok(), read.error());  // this process has encoded them
    for (const Piece& piece : read->pieces) {
      auto producer = find(piece.location.id);
      if (producer == nullptr || producer->depth >= kDepthMax) continue;
      recipe->depth = std::max(recipe->depth, producer->depth + 1);
      recipe->of_arguments.push_back(std::move(producer));
    }
  }
  Remakable remakable{.recipe = recipe};
  for (const auto& object : cell.call().own_arguments()) {
    const auto producer = find(object->location().id);
    if (producer == nullptr || producer->depth >= kDepthMax) remakable.arguments.push_back(object);
  }
  const std::lock_guard lock{mutex_};
  if (ended_) return {};
  recipe->lineage = weak_from_this();
  recipes_.insert_or_assign(result, recipe);
  return remakable;
}

CellHandle Lineage::make_again(const std::shared_ptr<Recipe>& recipe, const Error& why) {
  CellHandle cell = new_cell_();
  CellHandle failed;  // destroyed after the lock: it may hold the last share in a recipe, whose destructor locks
  {
    const std::lock_guard lock{mutex_};
    if (recipe->again && (!recipe->again.ready() || recipe->again->error() == nullptr)) return recipe->again;
    if (!ended_ && recipe->call.attempt < recipe->call.max_retries) {
      recipe->call.attempt = wire::next_attempt(recipe->call.attempt);
      cell->set_call(recipe->call);
      failed = std::exchange(recipe->again, cell);
      background_.spawn(make(cell, recipe));
      return cell;
    }
  }
  cell->set_error(why);
  return cell;
}

async::Async<void> Lineage::make(CellHandle cell, std::shared_ptr<Recipe> recipe) {
  auto restored = co_await restore(cell, recipe->arguments);
  if (!restored) co_return cell->set_error(std::move(restored).error());
  complete(cell, restored->arguments);
  recipe->pool->submit(std::move(cell));
}

void Lineage::repair(std::shared_ptr<RunsAgain> pool, CellHandle cell, const Error& why) {
  {
    const std::lock_guard lock{mutex_};
    if (!ended_ && (cell->call().flags & wire::kInPieces) != 0) {
      return background_.spawn(repair_call(std::move(pool), std::move(cell), why));
    }
  }
  cell->set_error(why);
}

async::Async<void> Lineage::repair_call(std::shared_ptr<RunsAgain> pool, CellHandle cell, Error why) {
  const auto sent = cell->arguments();
  auto restored = co_await restore(cell, {sent.begin(), sent.end()});
  if (!restored || !restored->changed)
    co_return cell->set_error(restored ? std::move(why) : std::move(restored).error());
  complete(cell, restored->arguments);
  pool->submit(std::move(cell));
}

void Lineage::complete(const CellHandle& cell, std::span<const std::byte> arguments) {
  Encoder encoded;
  encoded.write(arguments.data(), arguments.size());
  cell->complete_arguments(encoded);
}

async::Async<Result<Lineage::Restored>> Lineage::restore(CellHandle cell, std::vector<std::byte> arguments) {
  Restored restored{std::move(arguments)};
  if ((cell->call().flags & wire::kInPieces) == 0) co_return restored;
  PHAROS_CO_TRY(InPieces read, read_pieces(restored.arguments));
  for (Piece& piece : read.pieces) {
    const auto object = co_await values_.find(piece.location);
    if (object) {
      cell->call().keep(*object);
      continue;
    }
    const auto recipe = object_store::is_lost(object.error()) ? find(piece.location.id) : nullptr;
    if (recipe == nullptr) {
      co_return Error{object.error()}.with("making an argument of a lost result again");
    }
    const CellHandle again = make_again(recipe, object.error());
    co_await until_there(again);
    if (!again.ready()) co_return stopped();
    if (again->error() != nullptr) co_return *again->error();
    const auto* const stored = again->stored();
    if (stored == nullptr || piece.begin > stored->size || piece.size > stored->size - piece.begin) {
      co_return made_differently();
    }
    cell->call().keep(stored->object);
    piece.location = stored->object->location();
    restored.changed = true;
  }
  std::memcpy(restored.arguments.data() + sizeof(std::uint64_t), read.pieces.data(),
              read.pieces.size() * sizeof(Piece));
  co_return restored;
}

void Lineage::end() {
  {
    const std::lock_guard lock{mutex_};
    ended_ = true;
  }
  background_.cancel();
  const auto joined = background_.join_blocking(async::Deadline::after(kMakingEndTime, executor_.now()));
  PHAROS_CHECK(joined.ok(), joined.error());
}

}  // namespace pharos::actors
