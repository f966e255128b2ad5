#pragma once

#include <unistd.h>

#include <string>

namespace pharos {

/// An address of the loopback network that only this process uses. A port that was free at this address stays free when
/// it is closed: other tests that run at the same time choose their ports at other addresses.
inline std::string own_loopback() {
  const unsigned id = static_cast<unsigned>(::getpid());
  const auto byte = [&](unsigned number) { return std::to_string(id >> (8 * number) & 0xff); };
  return "127." + std::to_string(64 + (id >> 16) % 128) + "." + byte(1) + "." + byte(0);
}

}  // namespace pharos
