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

#include "backend.hpp"
#include "meeting.hpp"
#include "shared_memory.hpp"

namespace pharos::ml {

/// Ranks of one machine, in memory that they share. Nobody's thread works for it: what a rank has to do it does when it
/// begins, looks at or waits for an operation.
///
/// Three ways, by where the data is and how much:
/// - A little: each rank copies its own into its staging room and reads all others'. One wait.
/// - More, in memory that was allocated here: each rank reduces its part of all ranks' data and writes the result to
///   all of them. Each byte is read once and written once.
/// - More, elsewhere: by parts, in the staging rooms, in either way.
///
/// Messages go by letters, through rooms that a rank keeps for those that it writes.
class SharedBackend final : public detail::Backend {
 public:
  /// The numbers of the ranks' processes: none, if nobody knows them before they come.
  static Result<std::unique_ptr<SharedBackend>> make(Mapping shared, std::uint32_t rank, std::uint32_t ranks,
                                                     Duration time, std::span<const std::int32_t> processes = {});
  /// For ranks that are threads of one process.
  static Result<std::unique_ptr<SharedBackend>> make(std::shared_ptr<ThreadMemory> shared, std::uint32_t rank,
                                                     std::uint32_t ranks, Duration time);
  /// For ranks of one machine among those of several, which do operations in steps. `names`: their numbers among all.
  /// Before the first one they meet().
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

  // For who does operations in steps.

  /// `is_held`: it has its turn now, but its data is not there before release().
  std::shared_ptr<detail::Work> begin(const detail::Step& step, const detail::Places& places, bool is_held = false);
  void release(detail::Work& work);
  /// Of all that have been begun and not held. What has failed, if something has.
  std::optional<Error> advance_all();
  static bool has_ended(const detail::Work& work);
  /// Until one of them can go on, or there is other news than that. False: it is so late.
  Result<bool> wait_until(std::uint64_t known_news, TimePoint when);
  /// Whom it waits for now, and whom this rank does; both may be asked on any thread, as long as this lives.
  std::function<std::optional<std::uint32_t>()> who_is_missing(const detail::Work& work) const;
  std::optional<std::uint32_t> whom_it_sleeps_for() const { return meeting_.whom_it_sleeps_for(); }
  /// Something that is not known here has changed. By any thread.
  void tell_news();
  std::uint64_t news() const { return news_.load(std::memory_order_seq_cst); }

 private:
  static constexpr std::size_t kStagings = 4;
  static constexpr std::size_t kStagingBytes = std::size_t{1} << 20;

  /// Memory of all ranks that belongs together.
  struct Window {
    std::vector<Mapping> mappings;
    std::vector<std::byte*> places;  // by rank
    std::size_t bytes = 0;
  };
  struct Task;
  class Running;
  /// Rooms where data is staged, given in the order of the operations.
  struct Stagings {
    std::uint64_t given = 0;
    std::array<std::uint64_t, kStagings> rounds{};  // by room: that used it last
  };
  class Message;
  /// What goes from one rank to another: in order.
  struct Post {
    std::deque<std::shared_ptr<Message>> messages;
    std::uint64_t letters = 0;  // that have been posted, or taken
  };

  SharedBackend(Mapping shared, std::shared_ptr<ThreadMemory> threads, std::uint32_t rank, std::uint32_t ranks,
                std::vector<std::uint32_t> names);

  /// In which one these bytes of this rank's lie; 0: in none.
  std::uint32_t window_of(const std::byte* memory, std::size_t bytes) const;
  /// All ranks have offered memory, and each has looked at what the others have.
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
  const std::shared_ptr<ThreadMemory> threads_;  // null: ranks are processes
  Meeting meeting_;
  std::atomic<std::uint64_t> news_{0};
  std::map<std::uint32_t, Window> windows_;
  std::map<const std::byte*, Mapping> for_all_;
  std::uint32_t last_window_ = 0;
  std::uint64_t last_round_ = 0;
  std::vector<Stagings> stagings_;                // one, or for steps another one for those that were held
  std::deque<std::shared_ptr<Running>> running_;  // in the order in which they were begun
  std::vector<Post> outgoing_;                    // by rank
  std::vector<Post> incoming_;
  std::optional<Error> failed_;
};

}  // namespace pharos::ml
