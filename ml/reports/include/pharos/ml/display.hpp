#pragma once

#include <cstddef>
#include <string>

#include <pharos/base/clock.hpp>
#include <pharos/base/export.hpp>

namespace pharos::ml {

/// "3 s", "4 min 10 s", "2 h 5 min".
PHAROS_API std::string to_text(double seconds);
/// Four digits that count.
PHAROS_API std::string short_number(double value);

/// How something long goes, on the standard error: text that is drawn over itself on a terminal, else a line now and
/// then. One thread.
class PHAROS_API Display {
 public:
  Display();

  bool is_terminal() const { return is_terminal_; }
  /// Whether it is time to draw again; not at first, when nothing has happened yet.
  bool wants(TimePoint now);
  /// When it will be.
  TimePoint next() const { return next_; }
  /// Lines, each with its end.
  void draw(const std::string& text);
  /// A line that stays: what is drawn next comes below it.
  void say(const std::string& line);

 private:
  const bool is_terminal_;
  std::size_t lines_ = 0;  // that are to be drawn over
  TimePoint next_{};
};

}  // namespace pharos::ml
