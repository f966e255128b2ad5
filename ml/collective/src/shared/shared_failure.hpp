#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <pharos/base/error.hpp>

#include "shared/neighbours.hpp"

namespace pharos::ml {

/// The error with which all ranks of a machine fail, in memory that they share. The first rank that fails writes it
/// down. The Meeting of each rank owns a SharedFailure over that memory. The error stays there: a Meeting that has
/// failed is of no further use. Any thread once all ranks have come, because read() asks the Neighbours.
class SharedFailure {
 public:
  static constexpr std::size_t kTextMax = 480;
  /// Zeros at first.
  struct Shared {
    // 0, kWritten, or kWritten + 1 + the rank that writes the error. kWritten publishes the other two, and ranks sleep
    // by it (see Bell).
    alignas(64) std::atomic<std::uint32_t> state;
    std::uint8_t code;
    char text[kTextMax];
  };

  /// The arguments outlive the object.
  SharedFailure(Shared& shared, const Neighbours& neighbours) : shared_{shared}, neighbours_{neighbours} {}

  /// Makes `why` the error, unless a rank has failed before. Returns whether it did. Of a longer text only kTextMax - 1
  /// bytes are kept.
  bool write(const Error& why);
  /// Returns the error; nullopt if no rank has failed. Waits up to 1 second for a rank that is just writing the error.
  /// Returns kActorDied if that rank has died, and kUnavailable if it has not written the error by then.
  std::optional<Error> read() const;
  /// Returns whether a rank has failed, even if it has not written its error yet.
  bool is_there() const { return shared_.state.load(std::memory_order_acquire) != 0; }
  bool is_written() const { return shared_.state.load(std::memory_order_seq_cst) == kWritten; }

 private:
  static constexpr std::uint32_t kWritten = 1;

  Shared& shared_;
  const Neighbours& neighbours_;
};

}  // namespace pharos::ml
