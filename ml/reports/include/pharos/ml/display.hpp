#pragma once

#include <cstddef>
#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>

namespace pharos::ml {

/// A duration as text: "3 s", "4 min 10 s", "2 h 5 min".
PHAROS_API std::string to_text(double seconds);
/// A number with four significant digits.
PHAROS_API std::string short_number(double value);

/// Shows on the standard error how a long run proceeds: on a terminal each text replaces the one before, twice a
/// second; elsewhere a text is written every 10 seconds. Owned by TrainLog, and by the Progress of a sweep; one
/// thread. Errors of writing are ignored. The destructor leaves the last text where it is.
class PHAROS_API Display {
 public:
  Display();

  bool is_terminal() const { return is_terminal_; }
  /// Returns whether it is time to draw, and then sets the next time. The first call returns false, because nothing has
  /// happened yet.
  bool wants(TimePoint now);
  /// The next time to draw.
  TimePoint next() const { return next_; }
  /// Draws lines, each of which ends with a newline.
  void draw(const std::string& text);
  /// Writes a line that stays: the next text is drawn below it.
  void say(const std::string& line);

 private:
  const bool is_terminal_;
  std::size_t lines_ = 0;  // the number of lines that the next text replaces
  TimePoint next_{};
};

}  // namespace pharos::ml
