#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pharos::ml {

/// How many trials in a row have failed with the same words. Numbers in the words do not count: they may be parameters.
/// Owned by SweepLoop; one thread.
class FailuresAlike {
 public:
  static constexpr std::size_t kMax = 10;

  void note(std::string_view error);
  /// Whether kMax trials have failed alike, one after the other.
  bool are_many() const { return in_a_row_ >= kMax; }

 private:
  std::string words_;
  std::size_t in_a_row_ = 0;
};

}  // namespace pharos::ml
