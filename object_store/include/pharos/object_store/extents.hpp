#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace pharos::object_store {

/// Keeps track of which stretches of a range of `length` units are taken. Allocates by best fit, and among equal fits
/// at the lowest address, so that long-lived stretches gather at the beginning and the end becomes free. Pure, and not
/// thread-safe. Owned by StoreBook and by SpillFile.
class Extents {
 public:
  explicit Extents(std::uint64_t length);

  /// Takes a stretch of this length, which must not be 0 (PHAROS_CHECK), and returns its first unit; nullopt if no free
  /// stretch is long enough.
  std::optional<std::uint64_t> take(std::uint64_t length);
  /// Frees a stretch, all of which must be taken. PHAROS_CHECK refuses a length of 0, and units that are free or
  /// outside.
  void give_back(std::uint64_t begin, std::uint64_t length);

  bool is_free(std::uint64_t begin, std::uint64_t length) const;
  std::uint64_t length() const { return length_; }
  std::uint64_t free() const { return free_; }
  std::uint64_t longest_free() const;

 private:
  const std::uint64_t length_;
  std::uint64_t free_;
  std::map<std::uint64_t, std::uint64_t> stretches_;  // free stretches: where each begins, and its length
};

}  // namespace pharos::object_store
