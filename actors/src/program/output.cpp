#include "program/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/log.hpp>

namespace pharos::actors {
namespace {

constexpr auto kReadTime = std::chrono::seconds{30};  // at the program's end: patience with a reader that takes nothing

bool shows_colours(FILE* stream) {
  const char* const terminal = std::getenv("TERM");
  const char* const unwanted = std::getenv("NO_COLOR");
  return (unwanted == nullptr || *unwanted == '\0') && terminal != nullptr && std::string_view{terminal} != "dumb" &&
         ::isatty(::fileno(stream)) == 1;
}

std::string prefix_of(const std::string& label, std::int32_t pid, bool coloured) {
  const std::string text = "(" + label + " pid=" + std::to_string(pid) + ")";
  if (!coloured) return text + " ";
  constexpr std::array kColours = {36, 35, 34, 32, 33};  // ANSI codes: cyan, magenta, blue, green, yellow
  const auto colour = kColours[static_cast<std::uint32_t>(pid) % kColours.size()];
  return "\033[" + std::to_string(colour) + "m" + text + "\033[0m ";
}

}  // namespace

Output::Output(net::Reactor& reactor, bool folds)
    : reactor_{reactor},
      folds_{folds},
      colours_{shows_colours(stdout), shows_colours(stderr)},
      writer_{kReadTime},
      reports_{kReadTime} {}

void Output::print(const wire::Output& output, StreamWriter::Written shown) {
  tell(output);
  const TimePoint now = reactor_.now();
  std::vector<OutputLine> lines;
  std::string_view left = output.lines;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    OutputLine line{output.label, output.pid, output.error, std::string{left.substr(0, end)}};
    left.remove_prefix(std::min(end + 1, left.size()));
    if (folds_ && !output.report) {
      for (OutputLine& each : fold_.add(std::move(line), now)) lines.push_back(std::move(each));
    } else {
      lines.push_back(std::move(line));
    }
  }
  show(lines, std::move(shown));
  tick_later();
}

void Output::add_listener(const std::shared_ptr<const OutputListener>& listener) {
  const std::lock_guard lock{mutex_};
  std::erase_if(listeners_, [](const auto& each) { return each.expired(); });
  listeners_.push_back(listener);
}

void Output::tell(const wire::Output& output) {
  std::vector<std::shared_ptr<const OutputListener>> listeners;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& each : listeners_) {
      if (auto listener = each.lock()) listeners.push_back(std::move(listener));
    }
  }
  if (listeners.empty()) return;
  const WorkerOutput said{output.label, output.pid, output.error, output.lines, output.last};
  for (const auto& each : listeners) (*each)(said);
}

void Output::flush() {
  show(fold_.flush());
  reports_.finish();
  if (const std::size_t dropped = writer_.finish(); dropped != 0) {
    log(LogLevel::kWarn, "this program's output is not being read; lines of its workers are dropped",
        {kv("dropped", ByteCount{dropped})});
  }
}

void Output::show(const std::vector<OutputLine>& lines, StreamWriter::Written shown) {
  std::array<std::string, 2> texts;
  for (const OutputLine& line : lines) {
    texts[line.error ? 1 : 0]
        .append(prefix_of(line.label, line.pid, colours_[line.error ? 1 : 0]))
        .append(line.text)
        .append(1, '\n');
  }
  if (!texts[0].empty()) writer_.write(stdout, std::move(texts[0]));
  if (!texts[1].empty() || shown) writer_.write(stderr, std::move(texts[1]), std::move(shown));
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
