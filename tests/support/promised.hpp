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

/// How long what is promised took, each time, in whatever child of this process. A machine that does other things too
/// holds one or the other up: half of them are as quick as promised, and each ends.
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
