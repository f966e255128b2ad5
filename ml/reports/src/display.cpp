#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <pharos/ml/display.hpp>

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

constexpr Duration kDrawTime = 500ms;
constexpr Duration kLineTime = 10s;
constexpr std::size_t kWidthElsewhere = 120;

}  // namespace

std::string to_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::size_t width_of_terminal() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWidthElsewhere;
  return size.ws_col;
}

std::string cut_lines(const std::string& text, std::size_t columns) {
  std::string cut;
  std::size_t column = 0;
  for (const char each : text) {
    const bool continues = (static_cast<unsigned char>(each) & 0xc0) == 0x80;  // a later byte of a character
    if (each == '\n') {
      column = 0;
    } else if (!continues) {
      ++column;
    }
    if (column <= columns) cut += each;
  }
  return cut;
}

Display::Display() : is_terminal_{::isatty(STDERR_FILENO) == 1} {}

bool Display::wants(TimePoint now) {
  if (now < next_) return false;
  const bool first = next_ == TimePoint{};
  next_ = now + (is_terminal_ ? kDrawTime : kLineTime);
  return !first;
}

void Display::draw(const std::string& text) {
  std::string all;
  if (is_terminal_ && lines_ != 0) all = "\x1b[" + std::to_string(lines_) + "A\x1b[J";
  // A line that the terminal continues in the next row would make lines_ wrong.
  all += is_terminal_ ? cut_lines(text, width_of_terminal()) : text;
  lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  std::fwrite(all.data(), 1, all.size(), stderr);
}

void Display::say(const std::string& line) {
  draw(line + '\n');
  lines_ = 0;
}

}  // namespace pharos::ml
