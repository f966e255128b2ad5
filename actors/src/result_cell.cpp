#include "result_cell.hpp"

#include <cstring>
#include <mutex>

#include "running_call.hpp"

namespace pharos::detail {
namespace {

using actors::WaitingRoom;

// Few cells are watched, so they share some locks instead of having one each.
std::mutex& watchers_mutex(const ResultCell* cell) {
  static auto* const mutexes = new std::array<std::mutex, 64>;
  return (*mutexes)[std::hash<const ResultCell*>{}(cell) / alignof(std::max_align_t) % mutexes->size()];
}

}  // namespace

void ResultCell::store(std::span<const std::byte> bytes) {
  size_ = bytes.size();
  std::byte* to = inline_.data();
  if (size_ > inline_.size()) {
    large_ = std::make_unique_for_overwrite<std::byte[]>(size_);
    to = large_.get();
  } else if (large_ != nullptr) {
    large_.reset();
  }
  if (size_ != 0) std::memcpy(to, bytes.data(), size_);
}

void ResultCell::complete() {
  if ((room_->complete(word_) & WaitingRoom::kWatched) == 0) return;
  std::unique_ptr<std::vector<async::Callback>> watchers;
  {
    const std::lock_guard lock{watchers_mutex(this)};
    watchers = std::move(watchers_);
  }
  for (auto& watcher : *watchers) watcher();
}

void ResultCell::when_ready(async::Callback then) {
  {
    const std::lock_guard lock{watchers_mutex(this)};
    if (WaitingRoom::mark(word_, WaitingRoom::kWatched)) {
      // Whoever completes it sees the mark, and comes for the lock.
      if (watchers_ == nullptr) watchers_ = std::make_unique<std::vector<async::Callback>>();
      watchers_->push_back(std::move(then));
      return;
    }
  }
  then();
}

Result<std::span<const std::byte>> ResultCell::wait(Deadline deadline) {
  if (!ready()) {
    if (actors::RunningCall* const running = actors::RunningCall::of_this_thread()) {
      running->wait(*this, deadline);
    } else {
      park(deadline);
    }
  }
  if (ready()) {
    if (error_ != nullptr) return *error_;
    return bytes();
  }
  if (room_->abandoned()) {
    return Error{ErrorCode::kRuntimeStopped, "this process is a child of fork(), and the result comes to its parent"};
  }
  return Error{ErrorCode::kDeadlineExceeded, "the result did not come in the time given; the call goes on"}
      .with_outcome(Outcome::kUnknown);
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

Result<std::span<const std::byte>> CellHandle::wait(Deadline deadline) const {
  if (cell_ == nullptr) return Error{ErrorCode::kInvalidArgument, "this Ref was moved from, and refers to nothing"};
  return cell_->wait(deadline);
}

}  // namespace pharos::detail
