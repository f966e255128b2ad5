#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <pharos/base/clock.hpp>

namespace pharos::actors {

/// A line that a process wrote.
struct OutputLine {
  std::string label;  ///< of the process
  std::int32_t pid = 0;
  bool error = false;  ///< to standard error
  std::string text;    ///< without the line's end
  friend bool operator==(const OutputLine&, const OutputLine&) = default;
};

/// Folds lines that many processes write alike: the first is shown at once; those that follow from others within
/// `kWindow` are counted, and told as one, "… [repeated 7x across 8 processes]", when the time has passed. What one
/// process alone repeats is shown as it is, and so are lines that say nothing but numbers, which differ in what they
/// mean, and empty ones. Lines that differ in anything, a number too, are different lines. Pure: lines and the time in,
/// lines to show out. One thread. Bounds: remembers `kLinesMax` lines of at most `kTextMax`, and `kProcessesMax`
/// processes for each; what goes beyond is shown.
class LineFold {
 public:
  static constexpr auto kWindow = std::chrono::seconds{5};
  static constexpr std::size_t kLinesMax = 1000;
  static constexpr std::size_t kTextMax = 1000;
  static constexpr std::size_t kProcessesMax = 1000;

  /// What to show now.
  std::vector<OutputLine> add(OutputLine line, TimePoint now);
  std::vector<OutputLine> tick(TimePoint now);
  /// When tick() has something to do.
  std::optional<TimePoint> next_tick() const;
  /// All that is held back; nothing is remembered afterwards.
  std::vector<OutputLine> flush();

 private:
  struct Remembered {
    OutputLine last;  // of those that were folded; first, of the one that was shown
    TimePoint since;
    std::size_t repeats = 0;
    std::vector<std::int32_t> pids;  // in order
  };
  using Key = std::pair<bool, std::string>;
  struct Hash {
    std::size_t operator()(const Key& key) const { return std::hash<std::string>{}(key.second) + (key.first ? 1 : 0); }
  };

  static OutputLine told(const Remembered& line);

  std::list<Remembered> lines_;  // oldest first
  std::unordered_map<Key, std::list<Remembered>::iterator, Hash> by_text_;
};

}  // namespace pharos::actors
