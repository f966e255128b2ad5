#pragma once

#include <pharos/ml/collective/backend.hpp>

namespace pharos::ml {

/// An operation of a SharedBackend: of all ranks (RoundOperation), or a message (Mail). `ended` stays false if a
/// failure has dropped it. The owner's thread.
struct SharedTask : detail::Work {
  bool ended = false;
};

}  // namespace pharos::ml
