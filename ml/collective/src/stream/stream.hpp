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
#include <pharos/ml/collective/operation.hpp>

namespace pharos::ml {

/// The set of ranks that do an operation together.
enum class Among : std::uint32_t {
  kAll,
  kLane,  ///< A lane: one rank of each machine.
  kTwo,   ///< The two ranks of a message; each direction counts its own messages.
};

/// The header of a message between ranks of different machines. It is sent as it lies in memory, and `bytes` bytes
/// follow. A value.
struct StreamMessage {
  enum class Kind : std::uint32_t {
    kBegun,   ///< The sender has begun this operation, and takes data of it from now on.
    kData,    ///< A chunk of an operation that the receiver has begun.
    kFailed,  ///< The text of an error follows: all operations fail with it.
    kGaveUp,  ///< The same, from a sender that has not found all ranks yet.
    kLeft,    ///< The sender will begin no further operation.
    kAsk,     ///< The sender asks which rank the receiver waits for.
    kAnswer,  ///< The answer to kAsk.
  };

  Kind kind = Kind::kBegun;
  Among among = Among::kAll;  ///< for kBegun and kData
  std::uint32_t tag = 0;      ///< kData: the chunk; failures: the error's code; kAnswer: the rank + 1, or 0 for none
  std::uint64_t number = 0;   ///< The operation's number among those of the same ranks.
  std::uint64_t bytes = 0;    ///< The number of bytes that follow.
  Operation operation{};      ///< kBegun: the operation, on which its ranks must agree.

  static constexpr std::size_t kTextMax = 4096;

  bool is_failure() const { return kind == Kind::kFailed || kind == Kind::kGaveUp; }
  bool makes_sense() const;
};

/// A connection to another rank. Owned by PeerSockets, or by connect_ranks() for a last word. One thread, on which the
/// Receiver and the functions `sent` run, too. The destructor closes the connection, and drops what is queued without
/// calling `sent`. It keeps no copies: the sender leaves bytes in their place until they have been sent (only texts are
/// copied), and bytes that come are written to where the receiver says. kUnavailable if the other rank has closed the
/// connection, and the error of errno; the Stream is of no use after an error.
class Stream {
 public:
  /// Gets what comes. PeerSockets owns the receivers, which StreamLoop makes.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// Returns where the message's bytes are to be written. The place is not used if the message has no bytes. An error
    /// if the message is not allowed now: read() returns that error.
    virtual Result<std::byte*> place(const StreamMessage& message) = 0;
    /// The message and all its bytes have come.
    virtual void came(const StreamMessage& message) = 0;
  };

  /// `bytes_sent` counts the bytes that several Streams have sent, and outlives this one.
  Stream(Fd socket, std::atomic<std::uint64_t>& bytes_sent) : socket_{std::move(socket)}, bytes_sent_{bytes_sent} {}

  int descriptor() const { return socket_.get(); }
  /// Queues the message. write() calls `sent` when all its bytes have been sent and may be changed. send_text() cuts a
  /// text at kTextMax bytes.
  void send(const StreamMessage& message, const std::byte* bytes, std::function<void()> sent = {});
  void send_text(StreamMessage message, const std::string& text);
  bool has_to_send() const { return !going_.empty(); }
  /// Drops the queued messages, except one of which a part has been sent. Their `sent` is not called.
  void drop_unsent();

  /// Sends queued messages as far as possible without waiting, but at most `most` bytes. Returns the number of bytes.
  Result<std::size_t> write(std::size_t most);
  /// Reads messages as far as possible without waiting, and at most 32 of them. kCorrupt for a message that makes no
  /// sense.
  Result<void> read(Receiver& receiver);

 private:
  struct Going {
    StreamMessage message;
    const std::byte* bytes;
    std::vector<std::byte> text;
    std::function<void()> sent;
    std::size_t done = 0;  // bytes of header and data that have been sent
  };
  Result<bool> read_message(Receiver& receiver);

  Fd socket_;
  std::atomic<std::uint64_t>& bytes_sent_;
  std::deque<Going> going_;
  StreamMessage coming_{};
  std::size_t come_ = 0;  // bytes of header and data that have come
  std::byte* place_ = nullptr;
};

}  // namespace pharos::ml
