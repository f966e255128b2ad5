#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/clock.hpp>

namespace pharos::node {

/// A worker that could be killed because memory is short.
struct Candidate {
  bool idle = false;           ///< nobody has it
  bool may_run_again = false;  ///< what it runs has a retry, or a restart, left
  TimePoint since;             ///< when it began with that
  ByteCount memory{};          ///< that would be free then
};

/// Which one costs least: an idle one, else one whose work is done again, else any; of those the newest, which has done
/// the least. One that has next to nothing, beside another, only when it is the last. None: there is none.
std::optional<std::size_t> choose_victim(std::span<const Candidate> candidates);

}  // namespace pharos::node
