#include "program/line_fold.hpp"

#include <algorithm>
#include <cstdlib>

namespace pharos::actors {
namespace {

bool is_number(const std::string& word) {
  char* end = nullptr;
  std::strtod(word.c_str(), &end);
  return end != word.c_str() && *end == '\0';
}

/// Returns whether all words between spaces and punctuation are numbers, as in "0.25", "3 0.71 nan", "[1, 2]" and "".
bool only_numbers(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r,;:|/()[]{}=%";
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return true;
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    if (!is_number(std::string{text.substr(begin, end - begin)})) return false;
    text.remove_prefix(end);
  }
  return true;
}

}  // namespace

std::vector<OutputLine> LineFold::add(OutputLine line, TimePoint now) {
  std::vector<OutputLine> shown = tick(now);
  const auto show = [&] { shown.push_back(std::move(line)); };
  if (line.text.size() > kTextMax || only_numbers(line.text)) {
    show();
    return shown;
  }
  const auto found = by_text_.find(Key{line.error, line.text});
  if (found == by_text_.end()) {
    if (lines_.size() < kLinesMax) {
      lines_.push_back({line, now, 0, {line.pid}});
      by_text_.emplace(Key{line.error, line.text}, std::prev(lines_.end()));
    }
    show();
    return shown;
  }
  Remembered& remembered = *found->second;
  auto& pids = remembered.pids;
  const auto place = std::lower_bound(pids.begin(), pids.end(), line.pid);
  const bool known = place != pids.end() && *place == line.pid;
  if (!known && pids.size() < kProcessesMax) pids.insert(place, line.pid);
  if (pids.size() == 1) {
    show();
  } else {
    remembered.last = std::move(line);
    ++remembered.repeats;
  }
  return shown;
}

OutputLine LineFold::told(const Remembered& line) {
  OutputLine told = line.last;
  if (line.repeats > 1) {
    told.text += " [repeated " + std::to_string(line.repeats) + "x across " + std::to_string(line.pids.size()) +
                 (line.pids.size() == kProcessesMax ? " or more" : "") + " processes]";
  }
  return told;
}

std::vector<OutputLine> LineFold::tick(TimePoint now) {
  std::vector<OutputLine> shown;
  while (!lines_.empty() && lines_.front().since + kWindow <= now) {
    Remembered& oldest = lines_.front();
    if (oldest.repeats != 0) shown.push_back(told(oldest));
    if (oldest.repeats > 1) {
      // The line still repeats. It stays remembered, so that the next equal line is counted and not shown at once.
      oldest.repeats = 0;
      oldest.since = now;
      lines_.splice(lines_.end(), lines_, lines_.begin());
    } else {
      by_text_.erase(Key{oldest.last.error, oldest.last.text});
      lines_.pop_front();
    }
  }
  return shown;
}

std::optional<TimePoint> LineFold::next_tick() const {
  if (lines_.empty()) return std::nullopt;
  return lines_.front().since + kWindow;
}

std::vector<OutputLine> LineFold::flush() {
  std::vector<OutputLine> shown;
  for (const Remembered& line : lines_) {
    if (line.repeats != 0) shown.push_back(told(line));
  }
  lines_.clear();
  by_text_.clear();
  return shown;
}

}  // namespace pharos::actors
