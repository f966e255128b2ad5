#pragma once

#include <pharos/base/error.hpp>

namespace pharos::actors {

/// What everything ends with that outlives its Runtime.
inline Error stopped() {
  return {ErrorCode::kRuntimeStopped, "the Runtime that this belongs to has ended",
          "Keep the Runtime alive until the last get()."};
}

}  // namespace pharos::actors
