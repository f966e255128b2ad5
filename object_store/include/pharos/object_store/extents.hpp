#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace pharos::object_store {

/// Which stretches of a line of so many units are taken. Best fit, and of those the lowest: what is long-lived gathers
/// at the beginning, and the end becomes free. Pure; one thread.
class Extents {
 public:
  explicit Extents(std::uint64_t length);

  /// The first unit of a free stretch of this length, which is taken now. None: there is no such stretch.
  std::optional<std::uint64_t> take(std::uint64_t length);
  /// The stretch must be taken.
  void give_back(std::uint64_t begin, std::uint64_t length);

  bool is_free(std::uint64_t begin, std::uint64_t length) const;
  std::uint64_t length() const { return length_; }
  std::uint64_t free() const { return free_; }
  std::uint64_t longest_free() const;

 private:
  const std::uint64_t length_;
  std::uint64_t free_;
  std::map<std::uint64_t, std::uint64_t> stretches_;  // free ones: where each begins, and its length
};

}  // namespace pharos::object_store
