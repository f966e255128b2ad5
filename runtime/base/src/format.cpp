#include <cstdio>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/id.hpp>

namespace pharos {

std::string to_hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string to_string(ByteCount count) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double amount = static_cast<double>(count.bytes());
  std::size_t unit = 0;
  // From 1023.95 on, rounding would print 1024.0 of this unit; the next unit is used instead.
  while (amount >= (unit == 0 ? 1024 : 1023.95) && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  const bool whole = amount == static_cast<double>(static_cast<std::uint64_t>(amount));
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", amount, kUnits[unit]);
  return text;
}

}  // namespace pharos
