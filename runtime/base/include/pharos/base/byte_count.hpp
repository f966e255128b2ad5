#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace pharos {

/// A number of bytes, written `64_MiB` or `ByteCount{n}`. Sums and differences wrap around like std::uint64_t.
class ByteCount {
 public:
  constexpr ByteCount() = default;
  constexpr explicit ByteCount(std::uint64_t bytes) : bytes_{bytes} {}

  constexpr std::uint64_t bytes() const { return bytes_; }
  friend constexpr auto operator<=>(ByteCount, ByteCount) = default;
  friend constexpr ByteCount operator+(ByteCount a, ByteCount b) { return ByteCount{a.bytes_ + b.bytes_}; }
  friend constexpr ByteCount operator-(ByteCount a, ByteCount b) { return ByteCount{a.bytes_ - b.bytes_}; }
  friend constexpr ByteCount operator*(ByteCount a, std::uint64_t n) { return ByteCount{a.bytes_ * n}; }

 private:
  std::uint64_t bytes_ = 0;
};

/// The count as text for people: "512 B", "1.5 MiB".
std::string to_string(ByteCount count);

inline namespace literals {
constexpr ByteCount operator""_B(unsigned long long n) {
  return ByteCount{n};
}
constexpr ByteCount operator""_KiB(unsigned long long n) {
  return ByteCount{n << 10};
}
constexpr ByteCount operator""_MiB(unsigned long long n) {
  return ByteCount{n << 20};
}
constexpr ByteCount operator""_GiB(unsigned long long n) {
  return ByteCount{n << 30};
}
}  // namespace literals

}  // namespace pharos
