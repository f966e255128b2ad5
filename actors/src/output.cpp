#include "output.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace pharos::actors {
namespace {

bool shows_colours(FILE* stream) {
  const char* const terminal = std::getenv("TERM");
  const char* const unwanted = std::getenv("NO_COLOR");
  return (unwanted == nullptr || *unwanted == '\0') && terminal != nullptr && std::string_view{terminal} != "dumb" &&
         ::isatty(::fileno(stream)) == 1;
}

std::string prefix_of(const std::string& label, std::int32_t pid, bool coloured) {
  const std::string text = "(" + label + " pid=" + std::to_string(pid) + ")";
  if (!coloured) return text + " ";
  constexpr std::array kColours = {36, 35, 34, 32, 33};  // of the terminal's eight: cyan, magenta, blue, green, yellow
  const auto colour = kColours[static_cast<std::uint32_t>(pid) % kColours.size()];
  return "\033[" + std::to_string(colour) + "m" + text + "\033[0m ";
}

void write(FILE* to, const std::string& text) {
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

}  // namespace

Output::Output(net::Reactor& reactor, bool folds)
    : reactor_{reactor}, folds_{folds}, colours_{shows_colours(stdout), shows_colours(stderr)} {}

void Output::print(const wire::Output& output) {
  const TimePoint now = reactor_.now();
  std::vector<OutputLine> shown;
  std::string_view left = output.lines;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    OutputLine line{output.label, output.pid, output.error, std::string{left.substr(0, end)}};
    left.remove_prefix(std::min(end + 1, left.size()));
    if (folds_ && !output.report) {
      for (OutputLine& each : fold_.add(std::move(line), now)) shown.push_back(std::move(each));
    } else {
      shown.push_back(std::move(line));
    }
  }
  show(shown);
  tick_later();
}

void Output::flush() {
  show(fold_.flush());
}

void Output::show(const std::vector<OutputLine>& lines) {
  std::array<std::string, 2> texts;
  for (const OutputLine& line : lines) {
    texts[line.error ? 1 : 0]
        .append(prefix_of(line.label, line.pid, colours_[line.error ? 1 : 0]))
        .append(line.text)
        .append(1, '\n');
  }
  write(stdout, texts[0]);
  write(stderr, texts[1]);
}

void Output::tick_later() {
  const auto next = fold_.next_tick();
  if (!next || ticks_) return;
  ticks_ = true;
  reactor_.run_at(*next, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->ticks_ = false;
    self->show(self->fold_.tick(self->reactor_.now()));
    self->tick_later();
  });
}

}  // namespace pharos::actors
