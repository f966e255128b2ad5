#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <pharos/base/clock.hpp>

namespace pharos::simulator {

/// A hash of all that happens in a run: runs that differ anywhere have different hashes. If the environment variable
/// PHAROS_TEST_TRACE is set, the trace is also printed line by line.
class Trace {
 public:
  Trace();

  void note(TimePoint when, std::string_view who, std::string_view what, std::uint64_t a = 0, std::uint64_t b = 0);
  void note_bytes(std::span<const std::byte> bytes);
  /// Returns whether the trace is printed. Text that is only printed is not part of the hash.
  bool printed() const { return printed_; }

  std::uint64_t hash() const { return hash_; }
  std::uint64_t notes() const { return notes_; }

 private:
  void mix(std::uint64_t value);

  const bool printed_;
  std::uint64_t hash_ = 0xcbf29ce484222325;
  std::uint64_t notes_ = 0;
};

}  // namespace pharos::simulator
