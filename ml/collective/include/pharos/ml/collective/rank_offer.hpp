#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pharos::ml::detail {

/// The data by which the other ranks find a rank. A value; the file and the listening socket that it names belong to
/// the Offered that has made it.
struct RankOffer {
  std::string machine{};      ///< Ranks with the same text can share memory.
  std::int32_t process = 0;   ///< The rank's process id.
  std::int32_t meeting = -1;  ///< The process's file descriptor of memory in which ranks can meet.
  std::string name{};         ///< The name of that memory, with random numbers in it.
  std::string address{};      ///< The address for ranks of other machines; empty if there is none.
};
/// A secret by which ranks prove to each other that they belong to one group.
using RankKey = std::array<std::byte, 32>;

}  // namespace pharos::ml::detail
