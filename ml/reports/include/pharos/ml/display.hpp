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

/// The columns of the terminal that the standard error goes to; 120 if it goes elsewhere.
PHAROS_API std::size_t width_of_terminal();
/// The text with each line cut to this number of characters, which may be of several bytes each, as UTF-8 has them.
PHAROS_API std::string cut_lines(const std::string& text, std::size_t columns);

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
  /// Draws lines, each of which ends with a newline. A terminal shows as much of a line as fits into its width.
  void draw(const std::string& text);
  /// Writes a line that stays: the next text is drawn below it.
  void say(const std::string& line);

 private:
  const bool is_terminal_;
  std::size_t lines_ = 0;  // the number of lines that the next text replaces
  TimePoint next_{};
};

}  // namespace pharos::ml
