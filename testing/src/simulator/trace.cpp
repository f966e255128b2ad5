#include "simulator/trace.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pharos::simulator {

Trace::Trace() : printed_{std::getenv("PHAROS_TEST_TRACE") != nullptr} {}

void Trace::mix(std::uint64_t value) {
  hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15;
  hash_ ^= hash_ >> 29;
}

void Trace::note(TimePoint when, std::string_view who, std::string_view what, std::uint64_t a, std::uint64_t b) {
  ++notes_;
  mix(static_cast<std::uint64_t>(when.time_since_epoch().count()));
  note_bytes(std::as_bytes(std::span{who}));
  note_bytes(std::as_bytes(std::span{what}));
  mix(a);
  mix(b);
  if (!printed_) return;
  std::printf("%14lld %-10.*s %.*s %llu %llu\n", static_cast<long long>(when.time_since_epoch().count() / 1000),
              static_cast<int>(who.size()), who.data(), static_cast<int>(what.size()), what.data(),
              static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
}

void Trace::note_bytes(std::span<const std::byte> bytes) {
  mix(bytes.size());
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    mix(word);
    bytes = bytes.subspan(sizeof word);
  }
  std::uint64_t rest = 0;
  if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
  mix(rest);
}

}  // namespace pharos::simulator
