#include "results/result_cell.hpp"

#include <array>
#include <mutex>

#include <pharos/actors/codec_context.hpp>
#include <pharos/actors/exceptions.hpp>
#include <pharos/async/completion.hpp>

#include "caller/refused.hpp"
#include "results/inherited_context.hpp"
#include "results/large_values.hpp"
#include "worker/running_call.hpp"

namespace pharos::detail {
namespace {

using actors::WaitingRoom;

// Few cells are watched, so they share some locks instead of having one each.
std::mutex& watchers_mutex(const ResultCell* cell) {
  static auto* const mutexes = new std::array<std::mutex, 64>;
  return (*mutexes)[std::hash<const ResultCell*>{}(cell) / alignof(std::max_align_t) % mutexes->size()];
}

Error moved_from() {
  return {ErrorCode::kInvalidArgument, "this Ref was moved from, and refers to nothing",
          "Copy a Ref that is needed again: copies share the result."};
}

// Completes the cell with a part of the value of `whole`, without copying it. If there is a count, the part consists of
// so many elements.
void set_part(ResultCell& cell, const CellHandle& whole, const Encoded& value, std::span<const std::byte> part,
              std::optional<std::uint64_t> count, ActorHandles actors) {
  if (const auto* const stored = whole->stored()) {
    const auto begin = static_cast<std::size_t>(part.data() - value.bytes.data());
    return cell.set_stored({stored->object, stored->begin + begin, part.size(), stored->remakable}, count,
                           std::move(actors));
  }
  auto owner = value.owner != nullptr ? value.owner : std::make_shared<const CellHandle>(whole);
  cell.set_value(Bytes{std::move(owner), part}, std::move(actors), count);
}

// The cells of the parts into which a result will be split.
struct Parts {
  std::mutex mutex;
  CellHandle whole;  // empty once the parts are complete
  std::vector<CellHandle> cells;
  std::size_t wanted = 0;  // how many parts are not cancelled

  // Called at most once for each part. The last of these calls cancels the whole.
  void cancel_one() {
    CellHandle given_up;
    {
      const std::lock_guard lock{mutex};
      if (--wanted == 0) given_up = whole;
    }
    if (given_up) given_up.cancel();
  }

  void complete(const CellHandle& from, bool (*find_ends)(const CellHandle&, const Encoded&, std::size_t*)) {
    const auto value = from.wait(Deadline::never());
    if (!value) return fail(value.error());
    const std::span<const std::byte> bytes = value->bytes;
    std::vector<std::size_t> ends(cells.size());
    try {
      if (!value->count.empty() || !find_ends(from, *value, ends.data())) {  // a tuple has no count of elements
        return fail(Error{ErrorCode::kCorrupt, "received a result that is not of its function's type"});
      }
    } catch (...) {
      return fail(current_exception());
    }
    std::size_t begin = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto part = bytes.subspan(begin, ends[i] - begin);
      ActorHandles actors{from->actors().begin(), from->actors().end()};
      if (part.size() >= kSharedBytesMin) {
        set_part(*cells[i], from, *value, part, std::nullopt, std::move(actors));
      } else {
        cells[i]->set_value(part, std::move(actors));
      }
      begin = ends[i];
    }
    release();
  }

 private:
  void fail(const Error& error) {
    for (const CellHandle& cell : cells) cell->set_error(error);
    release();
  }
  // Each part's on_cancel() has a share in this object, so the shares in the parts must be dropped here.
  void release() {
    const std::lock_guard lock{mutex};
    whole = {};
    cells.clear();
  }
};

}  // namespace

void ResultCell::complete() {
  call_.let_go();
  if ((room_->complete(word_) & WaitingRoom::kWatched) == 0) return;
  std::unique_ptr<std::vector<Watch>> watchers;
  {
    const std::lock_guard lock{watchers_mutex(this)};
    watchers = std::move(watchers_);
  }
  if (watchers == nullptr) return;  // forget() has dropped all of them
  for (Watch& watch : *watchers) watch.then();
}

void ResultCell::when_ready(async::Callback then, const void* watcher) {
  {
    const std::lock_guard lock{watchers_mutex(this)};
    if (WaitingRoom::mark(word_, WaitingRoom::kWatched)) {
      // The thread that completes the cell sees the mark, and takes this lock to find the watchers.
      if (watchers_ == nullptr) watchers_ = std::make_unique<std::vector<Watch>>();
      watchers_->push_back({std::move(then), watcher});
      return;
    }
  }
  then();
}

void ResultCell::forget(const void* watcher) {
  std::vector<Watch> dropped;  // destroyed after the lock is released
  const std::lock_guard lock{watchers_mutex(this)};
  if (watchers_ == nullptr) return;
  std::vector<Watch> kept;
  for (Watch& watch : *watchers_) (watch.watcher == watcher ? dropped : kept).push_back(std::move(watch));
  *watchers_ = std::move(kept);
}

std::shared_ptr<actors::LargeValues> ResultCell::large_values() const {
  const auto& values = room_->large_values();
  return values->ended() ? nullptr : values;
}

void ResultCell::call_back(async::Callback then) {
  when_ready([room = room_, then = std::move(then)]() mutable { room->call_back(std::move(then)); });
}

void ResultCell::when_readable(async::UniqueFunction<void(std::shared_ptr<const void> kept)> then) {
  when_ready([self = CellHandle{(retain(), this)}, then = std::move(then)]() mutable {
    if (self->stored() == nullptr) return then(nullptr);
    // If the value cannot be read, wait() returns the error.
    if (auto view = self->stored()->object->read_now(); !view || *view != nullptr) {
      return then(view ? std::move(*view) : nullptr);
    }
    ResultCell& cell = *self;
    cell.room_->call_back([self = std::move(self), then = std::move(then)]() mutable {
      auto value = self->wait(Deadline::never());
      then(value ? std::move(value->owner) : nullptr);
    });
  });
}

Result<Encoded> ResultCell::wait(Deadline deadline) {
  if (!ready() && !room_->abandoned()) {
    const actors::WaitingThreads::Note note{room_->threads(), *this};
    if (actors::RunningCall* const running = actors::RunningCall::of_this_thread()) {
      running->wait(*this, deadline);
    } else {
      park(deadline);
    }
  }
  if (ready()) {
    if (error_ != nullptr) return *error_;
    if (elsewhere_ == nullptr) [[likely]]
      return Encoded{{}, arguments()};
    return value_elsewhere(deadline);
  }
  if (const auto* const running = actors::RunningCall::of_this_thread(); running != nullptr && running->cancelled()) {
    return Error{ErrorCode::kCancelled, "the call that waited for this result was cancelled",
                 "Return from the function that waits: its result is not wanted any more."};
  }
  if (room_->abandoned()) {
    return Error{ErrorCode::kRuntimeStopped, "this process is a child of fork(), and the result comes to its parent"};
  }
  return Error{ErrorCode::kDeadlineExceeded, "the result did not come in the time given; the call goes on",
               "Wait for it again, or cancel() it."}
      .with_outcome(Outcome::kUnknown);
}

Result<Encoded> ResultCell::made_again(const Error& why, Deadline deadline) const {
  const auto& recipe = stored()->remakable.recipe;
  const CellHandle again = recipe == nullptr || !object_store::is_lost(why) ? CellHandle{} : recipe->make_again(why);
  if (!again) return why;
  PHAROS_TRY(Encoded whole, again.wait(deadline));
  const Stored& part = *stored();
  if (!whole.count.empty() || part.begin > whole.bytes.size() || part.size > whole.bytes.size() - part.begin) {
    return actors::made_differently();
  }
  whole.bytes = whole.bytes.subspan(part.begin, part.size);
  return whole;
}

Result<Encoded> ResultCell::value_elsewhere(Deadline deadline) const {
  Encoded value;
  if (elsewhere_->count) value.count = std::as_bytes(std::span{&*elsewhere_->count, 1});
  if (const Stored* const in_store = stored()) {
    auto view = in_store->object->read();
    if (view) {
      value.bytes = (*view)->bytes().subspan(in_store->begin, in_store->size);
      value.owner = *std::move(view);
    } else {
      PHAROS_TRY(Encoded again, made_again(view.error(), deadline));
      value.bytes = again.bytes;
      value.owner = std::move(again.owner);
    }
  } else if (elsewhere_->bytes.owner() != nullptr) {
    value.bytes = elsewhere_->bytes.span();
    value.owner = elsewhere_->bytes.owner();
  } else if (!elsewhere_->count) {
    value.bytes = arguments();
  }
  return value;
}

async::Async<std::shared_ptr<const void>> until_ready(CellHandle cell) {
  if (!cell) throw_error(moved_from());
  if (cell->ready() && cell->stored() == nullptr) [[likely]]
    co_return nullptr;
  cell->room().flush();
  const actors::WaitingThreads::Note note{cell->room().threads(), *cell, actors::WaitingThreads::Who::kCoroutine};
  async::Completion<std::shared_ptr<const void>> readable;
  cell->when_readable([readable](std::shared_ptr<const void> kept) mutable { readable.complete(std::move(kept)); });
  auto kept = co_await readable.wait(Deadline::never());
  if (!kept) throw_error(std::move(kept).error());
  co_return *std::move(kept);
}

void wait_until_ready(const CellHandle& cell) {
  auto waited = cell.wait(Deadline::never());
  if (!cell.ready()) throw_error(std::move(waited).error());
}

void call_back_when_ready(const std::vector<CellHandle>& cells, async::Callback then) {
  then = actors::as_continuation(std::move(then));
  struct State {
    std::atomic<std::size_t> pending;
    async::Callback then;
  };
  const std::shared_ptr<State> state{new State{cells.size(), std::move(then)}};
  for (const CellHandle& cell : cells) {
    cell.when_ready([state, cell] {
      if (state->pending.fetch_sub(1) == 1) cell->call_back(std::move(state->then));
    });
  }
}

CellHandle::CellHandle(const CellHandle& other) : cell_{other.cell_} {
  if (cell_ != nullptr) cell_->retain();
}

void CellHandle::release() {
  cell_->release();
}

bool CellHandle::ready() const {
  return cell_ != nullptr && cell_->ready();
}

Result<Encoded> CellHandle::wait(Deadline deadline) const {
  if (cell_ == nullptr) return moved_from();
  return cell_->wait(deadline);
}

namespace {

/// Completes `slice` with some elements of `whole`.
void complete_slice(const CellHandle& slice, const CellHandle& whole, std::uint64_t begin, std::uint64_t count,
                    std::size_t element_bytes) {
  auto value = whole.wait(Deadline::never());
  if (!value) return slice.set_error(std::move(value).error());
  Encoded encoded = *value;
  std::uint64_t there = 0;
  if (encoded.count.empty() && encoded.bytes.size() >= sizeof there) {
    encoded.count = encoded.bytes.first(sizeof there);
    encoded.bytes = encoded.bytes.subspan(sizeof there);
  }
  if (encoded.count.size() == sizeof there) std::memcpy(&there, encoded.count.data(), sizeof there);
  if (there > encoded.bytes.size() / element_bytes) {
    return slice.set_error(Error{ErrorCode::kCorrupt, "received a result that is not of its function's type"});
  }
  if (begin > there || count > there - begin) {
    return slice.set_error(Error{ErrorCode::kInvalidArgument,
                                 "a slice of " + std::to_string(count) + " elements from " + std::to_string(begin) +
                                     " on was asked for; there are " + std::to_string(there)});
  }
  const auto part = encoded.bytes.subspan(begin * element_bytes, count * element_bytes);
  set_part(*slice, whole, *value, part, count, {});
}

}  // namespace

CellHandle CellHandle::slice(std::size_t begin, std::size_t count, std::size_t element_bytes) const {
  CellHandle made = offspring();
  cell_->when_readable([made, whole = *this, begin, count, element_bytes](const std::shared_ptr<const void>&) {
    complete_slice(made, whole, begin, count, element_bytes);
  });
  return made;
}

CellHandle CellHandle::sibling() const {
  if (cell_ == nullptr) throw_error(moved_from());
  return cell_->sibling();
}
CellHandle CellHandle::offspring() const {
  CellHandle made = sibling();
  made->on_cancel([cell = &*made] {
    cell->set_error(Error{ErrorCode::kCancelled, "the result was cancelled before it was made"});
  });
  return made;
}

std::vector<CellHandle> CellHandle::split(std::size_t parts,
                                          bool (*find_ends)(const CellHandle& cell, const Encoded& whole,
                                                            std::size_t* ends)) const {
  if (cell_ == nullptr) throw_error(moved_from());
  const auto shared = std::make_shared<Parts>();
  shared->whole = *this;
  shared->wanted = parts;
  for (std::size_t i = 0; i < parts; ++i) {
    CellHandle part = sibling();
    part->on_cancel([shared, asked = std::make_unique<std::atomic<bool>>(false)] {
      if (!asked->exchange(true)) shared->cancel_one();
    });
    shared->cells.push_back(std::move(part));
  }
  std::vector<CellHandle> cells = shared->cells;
  call_back([shared, whole = *this, find_ends] { shared->complete(whole, find_ends); });
  return cells;
}

void CellHandle::cancel(bool force) const {
  if (cell_ == nullptr) throw_error(moved_from());
  cell_->cancel(force);
}

void CellHandle::set_value(const Encoder& value) const {
  if (value.failed()) return set_error(actors::not_encoded("the result", value));
  ActorHandles actors = value.context() == nullptr ? ActorHandles{} : value.context()->actors;
  if (value.in_room()) {
    cell_->set_object(actors::room_of(value).seal(), std::move(actors));
  } else {
    cell_->set_value(value, std::move(actors));
  }
}
void CellHandle::set_error(Error error) const {
  cell_->set_error(std::move(error));
}
void CellHandle::when_ready(async::Callback then, const void* watcher) const {
  if (cell_ == nullptr) throw_error(moved_from());
  cell_->when_ready(std::move(then), watcher);
}
void CellHandle::forget(const void* watcher) const {
  cell_->forget(watcher);
}
void CellHandle::call_back(async::Callback then) const {
  if (cell_ == nullptr) throw_error(moved_from());
  cell_->call_back(actors::as_continuation(std::move(then)));
}

}  // namespace pharos::detail
