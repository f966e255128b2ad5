#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos::ml {

/// Returns the CRC-32C (Castagnoli) checksum, which journals and TensorBoard's files use. Any thread.
inline std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78 : 0);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::byte byte : bytes) crc = kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace pharos::ml
