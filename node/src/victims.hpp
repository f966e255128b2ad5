#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <pharos/base/clock.hpp>

namespace pharos::node {

/// A worker that could be killed because memory is short.
struct Candidate {
  bool idle = false;           ///< nobody has it
  bool may_run_again = false;  ///< what it runs has a retry, or a restart, left
  TimePoint since;             ///< when it began with that
};

/// Which one costs least: an idle one, else one whose work is done again, else any; of those the newest, which has done
/// the least. None: there is none.
std::optional<std::size_t> choose_victim(std::span<const Candidate> candidates);

}  // namespace pharos::node
