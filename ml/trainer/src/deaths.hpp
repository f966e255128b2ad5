#pragma once

#include <pharos/base/error.hpp>

namespace pharos::ml {

/// Of another rank, or of the way to it: not the function's own.
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
