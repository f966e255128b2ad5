#pragma once

#include <pharos/base/error.hpp>

namespace pharos::ml {

/// Returns true for codes of errors that come from the death of a rank or a lost connection to it, and not from the
/// training function itself. If the function itself throws an error with such a code, that is taken for a death, too.
/// Trainer::run() and the ranks call it, on any thread.
inline bool is_of_death(ErrorCode code) {
  switch (code) {
    case ErrorCode::kActorDied:
    case ErrorCode::kWorkerDied:
    case ErrorCode::kUnavailable:
    case ErrorCode::kObjectLost:
    case ErrorCode::kDeadlineExceeded: return true;
    default: return false;
  }
}

}  // namespace pharos::ml
