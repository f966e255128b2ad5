#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/ml/collective/backend.hpp>

#include "shared/meeting.hpp"
#include "shared/shared_memory.hpp"

namespace pharos::ml {

/// Ranks of one machine, which work in memory that they share. There is no thread for it: a rank does its work when it
/// begins an operation, looks at it or waits for it. One thread at a time, except where a function says more. The
/// destructor leaves the meeting: ranks that still wait for this one fail.
///
/// A staging room is a buffer of 1 MiB in memory that all ranks can read. A window is memory that the ranks have
/// allocated together, one piece for each rank. Operations go in one of three ways:
/// - One shot: each rank copies its data to its staging room, and reads the staging rooms of all others. The ranks wait
///   once. For an all_reduce of up to 8 KiB, and for all operations that neither other way serves. An all_reduce of up
///   to 16 bytes needs no staging room: its data travels in the lines of the Meeting.
/// - In place: more than 8 KiB in a window. Each rank reduces its part of all ranks' data and writes the result to all
///   ranks. Each byte is read once and written once, and the ranks wait twice.
/// - Two shot: an all_reduce of more than 8 KiB in other memory. It goes like in place, but in the staging rooms.
/// Data that is larger than a staging room goes in several rounds.
///
/// Messages go as letters (see Meeting), through buffers of the sender.
class SharedBackend final : public detail::Backend {
 public:
  /// Returns when all ranks have come. `shared` is the memory of their Meeting. `processes` has the process ids of the
  /// ranks; empty if they are unknown.
  static Result<std::unique_ptr<SharedBackend>> make(Mapping shared, std::uint32_t rank, std::uint32_t ranks,
                                                     Duration time, std::span<const std::int32_t> processes = {});
  /// The same for ranks that are threads of one process.
  static Result<std::unique_ptr<SharedBackend>> make(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank,
                                                     std::uint32_t ranks, Duration time);
  /// For HierarchicalBackend: the ranks of one of several machines, which do operations in steps. `names` has their
  /// numbers among the ranks of all machines. They call meet() before the first operation.
  SharedBackend(Mapping shared, std::uint32_t rank, std::vector<std::uint32_t> names);
  SharedBackend(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank, std::vector<std::uint32_t> names);
  Result<void> meet(Duration time, std::span<const std::int32_t> processes);
  ~SharedBackend() override;

  std::uint32_t rank() const override { return meeting_.rank(); }
  std::uint32_t ranks() const override { return meeting_.ranks(); }
  bool shares_memory() const override { return true; }
  std::uint64_t bytes_sent() const override { return 0; }
  std::shared_ptr<detail::Work> begin(const Operation& operation, const detail::Places& places) override {
    return begin({operation, operation}, places);
  }
  Result<bool> advance(detail::Work& work) override;
  Result<void> finish(detail::Work& work, Duration time) override;
  Result<std::byte*> allocate(std::size_t bytes, Duration time) override;
  Result<std::byte*> allocate_for_all(std::size_t bytes, Duration time) override;
  void free(std::byte* memory) override;
  bool works_on(std::span<const std::byte> memory) const override;
  void fail(const Error& why) override { static_cast<void>(meeting_.fail(why)); }
  Result<void> check() override { return meeting_.check(); }

  // The rest is for HierarchicalBackend, which does operations in steps.

  /// `is_held`: the step gets its place in the order of operations now, but it waits for release(), because its data
  /// comes later.
  std::shared_ptr<detail::Work> begin(const detail::Step& step, const detail::Places& places, bool is_held = false);
  void release(detail::Work& work);
  /// Advances all steps that are not held, and all messages. Returns the failure, if there is one.
  std::optional<Error> advance_all();
  static bool has_ended(const detail::Work& work);
  /// Waits until a step can continue, or until news() differs from `known_news`. Returns false at `when`.
  Result<bool> wait_until(std::uint64_t known_news, TimePoint when);
  /// Returns a function that says which rank `work` waits for now. It and whom_it_sleeps_for() may be called on any
  /// thread, as long as this backend lives.
  std::function<std::optional<std::uint32_t>()> who_is_missing(const detail::Work& work) const;
  std::optional<std::uint32_t> whom_it_sleeps_for() const { return meeting_.whom_it_sleeps_for(); }
  /// Wakes wait_until() because of a change that this backend does not see. On any thread.
  void tell_news();
  std::uint64_t news() const { return news_.load(std::memory_order_seq_cst); }

 private:
  static constexpr std::size_t kStagings = 4;
  static constexpr std::size_t kStagingBytes = std::size_t{1} << 20;

  /// Memory that the ranks have allocated together in one call. The first window has the staging rooms and the buffers
  /// of letters.
  struct Window {
    std::vector<Mapping> mappings;
    std::vector<std::byte*> places;  // by rank: where its memory is in this process
    std::size_t bytes = 0;
  };
  struct Task;
  class Running;
  /// A set of staging rooms, which are used in turn, in the order of the operations.
  struct Stagings {
    std::uint64_t given = 0;
    std::array<std::uint64_t, kStagings> rounds{};  // by room: the last round that used it
  };
  class Message;
  /// The messages from this rank to another, or from another to this one, in their order.
  struct Post {
    std::deque<std::shared_ptr<Message>> messages;
    std::uint64_t letters = 0;  // the number of letters that have been posted, or taken
  };

  SharedBackend(Mapping shared, std::shared_ptr<ThreadMemory> threads, std::uint32_t rank, std::uint32_t ranks,
                std::vector<std::uint32_t> names);

  /// Returns the number of the window in which these bytes of this rank lie; 0 if there is none.
  std::uint32_t window_of(const std::byte* memory, std::size_t bytes) const;
  /// Publishes `offer`, calls `look` when all ranks have published theirs, and returns when all ranks have done so.
  /// Operations that are under way are finished first.
  Result<void> exchange_memory(const Operation& operation, const Meeting::Offer& offer, Duration time,
                               const std::function<Result<void>()>& look);
  Result<Window> map_all(Mapping own, std::size_t bytes) const;
  Result<Fd> open_memory_of(std::uint32_t other) const;
  std::shared_ptr<detail::Work> begin_message(const detail::Step& step, const detail::Places& places);
  void go_on(Post& post);
  bool go_on(Message& message, Post& post);
  Meeting::Awaited awaited(const Message& message, const Post& post) const;
  std::byte* letter_room(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const;
  const Post& post_of(const Message& message) const;
  bool go_on(Running& running);
  bool enter(Running& running);
  bool is_next_to_stage(const Running& running) const;
  Meeting::Awaited awaited(const Running& running) const;
  Result<void> check(const Running& running);
  void reduce_part(const Running& running);
  void reduce_piece(const Running& running, std::span<std::byte* const> data);
  std::vector<std::byte*> rooms(const Running& running) const;
  void stage(const Running& running, std::byte* room) const;
  void take_staged(const Running& running);
  std::vector<Meeting::Awaited> awaited_by(const Task& task) const;
  void add_awaited_letters(std::vector<Meeting::Awaited>& all) const;

  const Mapping shared_;
  const std::shared_ptr<ThreadMemory> threads_;  // null if ranks are processes
  Meeting meeting_;
  std::atomic<std::uint64_t> news_{0};
  std::map<std::uint32_t, Window> windows_;
  std::map<const std::byte*, Mapping> for_all_;
  std::uint32_t last_window_ = 0;
  std::uint64_t last_round_ = 0;
  std::vector<Stagings> stagings_;                // one set; where steps can be held, a second one for these
  std::deque<std::shared_ptr<Running>> running_;  // in the order in which they were begun
  std::vector<Post> outgoing_;                    // by rank, as is incoming_
  std::vector<Post> incoming_;
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
