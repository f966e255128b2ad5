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

/// A line that a process wrote. A value.
struct OutputLine {
  std::string label;  ///< The name of the process.
  std::int32_t pid = 0;
  bool error = false;  ///< True for a line of standard error.
  std::string text;    ///< Without the newline.
  friend bool operator==(const OutputLine&, const OutputLine&) = default;
};

/// Folds equal lines of several processes. The first line is shown at once. Equal lines that follow within `kWindow`
/// are counted as soon as a second process has written one, and are shown as one line, "… [repeated 7x across 8
/// processes]", when the window has passed. Lines that one process alone repeats are not folded. Neither are empty
/// lines and lines of numbers alone, because equal numbers of different processes need not mean the same. Lines that
/// differ in anything, even in a number, are different lines.
/// A pure core: lines and the time go in, lines to show come out. One thread. Owned by Output. Bounds: remembers
/// `kLinesMax` lines of at most `kTextMax` bytes, and shows further and longer lines unfolded. It counts at most
/// `kProcessesMax` processes for each line, and then says "or more". The destructor drops the lines that are held back;
/// flush() returns them before.
class LineFold {
 public:
  static constexpr auto kWindow = std::chrono::seconds{5};
  static constexpr std::size_t kLinesMax = 1000;
  static constexpr std::size_t kTextMax = 1000;
  static constexpr std::size_t kProcessesMax = 1000;

  /// Takes one line. Returns the lines to show now.
  std::vector<OutputLine> add(OutputLine line, TimePoint now);
  /// Returns the folded lines whose window has passed.
  std::vector<OutputLine> tick(TimePoint now);
  /// Returns when tick() will have something to do; nullopt if no line is remembered.
  std::optional<TimePoint> next_tick() const;
  /// Returns all lines that are held back, and forgets everything.
  std::vector<OutputLine> flush();

 private:
  struct Remembered {
    OutputLine last;  // the last line that was folded; before that, the line that was shown
    TimePoint since;
    std::size_t repeats = 0;
    std::vector<std::int32_t> pids;  // sorted
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
