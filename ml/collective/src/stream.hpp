#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>

#include "operation.hpp"

namespace pharos::ml {

/// Who does an operation together.
enum class Among : std::uint32_t {
  kAll,
  kLane,  ///< one rank of each machine
  kTwo,   ///< of a message; each direction counts its own
};

/// What ranks of different machines say to each other: this, and the bytes that belong to it. As it lies in memory.
struct StreamMessage {
  enum class Kind : std::uint32_t {
    kBegun,   ///< the sender has begun this operation: it takes data of it from now on
    kData,    ///< a part of an operation, which the receiver has begun
    kFailed,  ///< why, as text: everything ends
    kGaveUp,  ///< the same, before the sender has found all ranks
    kLeft,    ///< the sender will begin nothing more
    kAsk,     ///< whom does the receiver wait for?
    kAnswer,  ///< to that
  };

  Kind kind = Kind::kBegun;
  Among among = Among::kAll;  ///< kBegun, kData
  std::uint32_t tag = 0;      ///< kData: which part; of a failure: its code; kAnswer: 1 more than the rank, 0: nobody
  std::uint64_t number = 0;   ///< of the operation among those of the same ranks
  std::uint64_t bytes = 0;    ///< that follow
  Operation operation{};      ///< kBegun: as its ranks must agree on it

  static constexpr std::size_t kTextMax = 4096;

  bool is_failure() const { return kind == Kind::kFailed || kind == Kind::kGaveUp; }
  bool makes_sense() const;
};

/// A connection to another rank. One thread. Bounds: what is sent stays where it is until it is gone, but for texts;
/// what comes goes where the receiver says.
class Stream {
 public:
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// Where its bytes go. An error: it is not allowed here.
    virtual Result<std::byte*> place(const StreamMessage& message) = 0;
    virtual void came(const StreamMessage& message) = 0;
  };

  /// `bytes_sent`: of several of them.
  Stream(Fd socket, std::atomic<std::uint64_t>& bytes_sent) : socket_{std::move(socket)}, bytes_sent_{bytes_sent} {}

  int descriptor() const { return socket_.get(); }
  /// `sent` is called once the bytes need not stay any more.
  void send(const StreamMessage& message, const std::byte* bytes, std::function<void()> sent = {});
  void send_text(StreamMessage message, const std::string& text);
  bool has_to_send() const { return !going_.empty(); }
  /// But for what is on its way already.
  void drop_unsent();

  /// As much as goes without waiting, but no more than `most`; how much it was. kUnavailable: the other end is gone.
  Result<std::size_t> write(std::size_t most);
  Result<void> read(Receiver& receiver);

 private:
  struct Going {
    StreamMessage message;
    const std::byte* bytes;
    std::vector<std::byte> text;
    std::function<void()> sent;
    std::size_t done = 0;  // of message and bytes
  };
  Result<bool> read_message(Receiver& receiver);

  Fd socket_;
  std::atomic<std::uint64_t>& bytes_sent_;
  std::deque<Going> going_;
  StreamMessage coming_{};
  std::size_t come_ = 0;  // of message and bytes
  std::byte* place_ = nullptr;
};

}  // namespace pharos::ml
