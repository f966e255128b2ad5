#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>

namespace pharos {

// The times that users are promised, which tests compare with measured ones. Sanitizers slow the code down, so the
// times are longer with them.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Time from a rank's death until all others throw.
inline constexpr std::chrono::milliseconds kDeathIsToldIn{kIsSanitized ? 5000 : 500};
/// Time from the deadline of ranks that wait for another rank until they throw.
inline constexpr std::chrono::milliseconds kDeadlineIsToldIn{kIsSanitized ? 5000 : 1000};

/// Measured times of an operation for which a time is promised. The memory is shared, so children of this process add
/// to it as well. A busy machine may hold some of them up, so only half have to be as quick as promised, and the others
/// may take kHeldUp longer.
class Times {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr std::size_t kMost = 10'000;
  static constexpr Time kHeldUp = std::chrono::seconds{10};

  Times()
      : all_{static_cast<All*>(
            ::mmap(nullptr, sizeof(All), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))} {}
  ~Times() { ::munmap(all_, sizeof(All)); }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  void add(Time took) const { all_->took.at(all_->count++) = took; }
  void expect_within(Time promised) const {
    const auto took = std::span{all_->took}.first(all_->count);
    ASSERT_FALSE(took.empty());
    std::ranges::sort(took);
    EXPECT_LE(took[(took.size() - 1) / 2], promised);
    EXPECT_LE(took.back(), promised + kHeldUp);
  }

 private:
  struct All {
    std::atomic<std::size_t> count;
    std::array<Time, kMost> took;
  };
  All* all_;
};

}  // namespace pharos
