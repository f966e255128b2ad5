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
  all += text;
  lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  std::fwrite(all.data(), 1, all.size(), stderr);
}

void Display::say(const std::string& line) {
  draw(line + '\n');
  lines_ = 0;
}

}  // namespace pharos::ml
