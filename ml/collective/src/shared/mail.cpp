#include "shared/mail.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <pharos/ml/collective/failpoints.hpp>

namespace pharos::ml {
namespace {

constexpr std::size_t kLineBytes = 64;
// The size of all letter buffers of a rank together, as far as the bounds of a single letter allow.
constexpr std::size_t kLettersBytes = 2 << 20;
constexpr std::size_t kLetterMin = 8 << 10;
constexpr std::size_t kLetterMax = 128 << 10;

std::size_t letter_bytes(std::uint32_t ranks) {
  return std::clamp(kLettersBytes / (ranks * LetterLines::kLetters), kLetterMin, kLetterMax) / kLineBytes * kLineBytes;
}

/// Unlike memcpy, this takes null pointers where there are 0 bytes.
void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

class Mail::Message final : public SharedTask {
 public:
  Message(const detail::Step& step, const detail::Places& places_given, std::size_t letter_max)
      : operation{step.operation},
        of{step.of},
        places{places_given},
        bytes{operation.count * size_of(operation.dtype)},
        letter{letter_max} {}

  const Operation operation;
  const Operation of;  // the operation on which both ranks agree
  const detail::Places places;
  const std::size_t bytes;
  const std::size_t letter;
  std::size_t done = 0;  // bytes

  std::size_t next() const { return std::min(letter, bytes - done); }
  bool is_small() const { return bytes <= kSmallBytes; }
  void next_letter() {
    done += next();
    ended = done == bytes;
  }
};

Mail::Mail(Meeting& meeting)
    : meeting_{meeting}, letter_bytes_{letter_bytes(meeting.ranks())}, queues_(2 * std::size_t{meeting.ranks()}) {}

std::size_t Mail::buffer_bytes(std::uint32_t ranks) {
  return ranks == 1 ? 0 : ranks * LetterLines::kLetters * letter_bytes(ranks);
}

std::byte* Mail::buffer_of(std::uint32_t from, std::uint32_t to, std::uint64_t letter) const {
  return buffers_[from] + (to * LetterLines::kLetters + letter % LetterLines::kLetters) * letter_bytes_;
}

std::shared_ptr<SharedTask> Mail::begin(const detail::Step& step, const detail::Places& places) {
  auto message = std::make_shared<Message>(step, places, letter_bytes_);
  queues_[queue_of(message->operation)].messages.push_back(message);
  return message;
}

std::size_t Mail::queue_of(const Operation& operation) const {
  return operation.root == meeting_.rank() ? operation.to : std::size_t{meeting_.ranks()} + operation.root;
}

Result<void> Mail::advance() {
  for (Queue& queue : queues_) PHAROS_TRY_VOID(advance(queue));
  return {};
}

Result<void> Mail::advance(Queue& queue) {
  while (!queue.messages.empty()) {
    PHAROS_TRY(const bool ended, advance(*queue.messages.front(), queue));
    if (!ended) return {};
    queue.messages.pop_front();
  }
  return {};
}

/// Returns true if the message has ended; false if it waits for the other rank.
Result<bool> Mail::advance(Message& message, Queue& queue) {
  LetterLines& letters = meeting_.letters();
  while (!message.ended) {
    if (!meeting_.is_there(awaited(message, queue))) return false;
    const std::uint64_t letter = ++queue.letters;
    const std::uint32_t from = message.operation.root;
    const std::uint32_t to = message.operation.to;
    std::byte* const buffer = buffer_of(from, to, letter);
    if (from == meeting_.rank()) {
      Said said{.operation = message.of};
      copy(message.is_small() ? said.small.data() : buffer, message.places.from + message.done, message.next());
      failpoint(failpoints::kLetterWritten);
      letters.post(to, letter, said);
    } else {
      const Said said = letters.posted(from, letter);
      if (said.operation != message.of) {
        const Neighbours& neighbours = meeting_.neighbours();
        return meeting_.fail(disagreement(neighbours.name(to), message.of, neighbours.name(from), said.operation,
                                          "as the next message between these two ranks"));
      }
      copy(message.places.to + message.done, message.is_small() ? said.small.data() : buffer, message.next());
      failpoint(failpoints::kLetterRead);
      letters.take(from, letter);
    }
    message.next_letter();
  }
  return true;
}

void Mail::drop() {
  for (Queue& queue : queues_) queue.messages.clear();
}

Meeting::Awaited Mail::awaited(const Message& message, const Queue& queue) const {
  using What = Meeting::Awaited::What;
  const std::uint64_t letter = queue.letters + 1;
  const Operation& operation = message.operation;
  if (operation.root != meeting_.rank()) {
    return {.what = What::kLetter, .number = letter, .rank = operation.root, .operation = message.of};
  }
  const std::uint64_t before = letter - std::min(letter, std::uint64_t{LetterLines::kLetters});
  return {.what = What::kTaken, .number = before, .rank = operation.to, .operation = message.of};
}

std::optional<Meeting::Awaited> Mail::awaited_by(const SharedTask& task) const {
  const auto* const message = dynamic_cast<const Message*>(&task);
  if (message == nullptr) return std::nullopt;
  const Queue& queue = queues_[queue_of(message->operation)];
  return awaited(*queue.messages.front(), queue);
}

void Mail::add_awaited(std::vector<Meeting::Awaited>& all) const {
  for (const Queue& queue : queues_) {
    if (!queue.messages.empty()) all.push_back(awaited(*queue.messages.front(), queue));
  }
}

}  // namespace pharos::ml
