#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>

#include "shared/meeting.hpp"
#include "shared/shared_task.hpp"

namespace pharos::ml {

/// The messages of one rank of a machine. A message goes as letters (see LetterLines), each through a buffer of the
/// sender. Owned by SharedBackend, and the Meeting outlives it. The caller's memory is used until the message has ended
/// or drop() was called; a message to send ends when its letters are posted, also if nobody has taken them. One thread.
class Mail {
 public:
  explicit Mail(Meeting& meeting);

  /// The size of all letter buffers of a rank together.
  static std::size_t buffer_bytes(std::uint32_t ranks);
  /// Called once, before begin(). `buffers` has the letter buffers of each rank.
  void use(std::vector<std::byte*> buffers) { buffers_ = std::move(buffers); }

  /// Queues a message that this rank sends or receives.
  std::shared_ptr<SharedTask> begin(const detail::Step& step, const detail::Places& places);
  /// Continues all messages as far as possible without waiting. Fails on all ranks with kInvalidArgument if the other
  /// rank's message is a different one. Only the waits of Meeting notice that a rank has died.
  Result<void> advance();
  /// Drops the messages that have not ended, after a failure. They never become `ended`.
  void drop();

  /// Returns what `task`, a message that has not ended, waits for, or the message that is before it in its queue.
  /// Nullopt if the task is not a message.
  std::optional<Meeting::Awaited> awaited_by(const SharedTask& task) const;
  /// Adds what all messages wait for.
  void add_awaited(std::vector<Meeting::Awaited>& all) const;

 private:
  class Message;
  /// The messages from this rank to another, or from another to this one, in their order.
  struct Queue {
    std::deque<std::shared_ptr<Message>> messages{};
    std::uint64_t letters = 0;  // the number of letters that have been posted, or taken
  };

  Result<void> advance(Queue& queue);
  Result<bool> advance(Message& message, Queue& queue);
  Meeting::Awaited awaited(const Message& message, const Queue& queue) const;
  std::size_t queue_of(const Operation& operation) const;
  std::byte* buffer_of(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const;

  Meeting& meeting_;
  const std::size_t letter_bytes_;
  std::vector<std::byte*> buffers_;  // by rank
  std::vector<Queue> queues_;        // those to each rank, then those from each rank
};

}  // namespace pharos::ml
