#pragma once

#include <chrono>

namespace pharos {

// What users are promised, as tests hold it against the clock; a sanitizer's code in between takes its time.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// From a rank's death until all others throw.
inline constexpr std::chrono::milliseconds kDeathIsToldIn{kIsSanitized ? 5000 : 500};
/// From the deadline of those that wait for a rank until they throw.
inline constexpr std::chrono::milliseconds kDeadlineIsToldIn{kIsSanitized ? 5000 : 1000};

}  // namespace pharos
