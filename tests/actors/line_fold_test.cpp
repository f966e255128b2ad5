#include "program/line_fold.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;

const TimePoint kBegin{100s};

OutputLine line(std::int32_t pid, const std::string& text, bool error = false) {
  return {"worker", pid, error, text};
}
std::vector<std::string> texts(const std::vector<OutputLine>& lines) {
  std::vector<std::string> all;
  for (const auto& each : lines) all.push_back(each.text);
  return all;
}
using Texts = std::vector<std::string>;

TEST(LineFoldTest, TheFirstLineIsShownAtOnceAndWhatOthersRepeatIsToldAfterTheWindow) {
  LineFold fold;
  EXPECT_EQ(texts(fold.add(line(1, "loading"), kBegin)), Texts{"loading"});
  for (int pid = 2; pid <= 8; ++pid) EXPECT_EQ(texts(fold.add(line(pid, "loading"), kBegin + 1s)), Texts{});
  EXPECT_EQ(fold.next_tick(), kBegin + LineFold::kWindow);
  EXPECT_EQ(texts(fold.tick(kBegin + LineFold::kWindow - 1ms)), Texts{});
  EXPECT_EQ(texts(fold.tick(kBegin + LineFold::kWindow)), Texts{"loading [repeated 7x across 8 processes]"});
}

TEST(LineFoldTest, WhatGoesOnIsNotShownFirstAgain) {
  LineFold fold;
  fold.add(line(1, "waiting"), kBegin);
  fold.add(line(2, "waiting"), kBegin);
  fold.add(line(3, "waiting"), kBegin);
  fold.tick(kBegin + 5s);
  EXPECT_EQ(texts(fold.add(line(1, "waiting"), kBegin + 6s)), Texts{});
  EXPECT_EQ(texts(fold.add(line(2, "waiting"), kBegin + 7s)), Texts{});
  EXPECT_EQ(texts(fold.tick(kBegin + 10s)), Texts{"waiting [repeated 2x across 3 processes]"});
  EXPECT_EQ(texts(fold.tick(kBegin + 15s)), Texts{});
  EXPECT_EQ(texts(fold.add(line(1, "waiting"), kBegin + 16s)), Texts{"waiting"});
}

TEST(LineFoldTest, ASingleRepeatIsShownAsItIs) {
  LineFold fold;
  fold.add(line(1, "ready"), kBegin);
  fold.add(line(2, "ready"), kBegin);
  const auto shown = fold.tick(kBegin + 5s);
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0], line(2, "ready"));
}

TEST(LineFoldTest, WhatOneProcessRepeatsIsAllShown) {
  LineFold fold;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(texts(fold.add(line(1, "step"), kBegin)), Texts{"step"});
  EXPECT_EQ(fold.flush().size(), 0u);
}

TEST(LineFoldTest, LinesThatDifferInANumberAreDifferentLines) {
  LineFold fold;
  for (int pid = 1; pid <= 4; ++pid) {
    const std::string text = "loss 0." + std::to_string(pid);
    EXPECT_EQ(texts(fold.add(line(pid, text), kBegin)), Texts{text});
  }
  EXPECT_EQ(fold.flush().size(), 0u);
}

TEST(LineFoldTest, LinesOfNumbersAloneAreNeverFolded) {
  LineFold fold;
  for (const std::string text : {"0.25", "17", "-1e-3", "3 0.71 nan", "[1, 2]", "0x1f", "50%", "", "   "}) {
    for (int pid = 1; pid <= 3; ++pid) EXPECT_EQ(texts(fold.add(line(pid, text), kBegin)), Texts{text}) << text;
  }
  EXPECT_EQ(fold.next_tick(), std::nullopt);
}

TEST(LineFoldTest, TheTwoStreamsAreFoldedApart) {
  LineFold fold;
  fold.add(line(1, "same"), kBegin);
  EXPECT_EQ(texts(fold.add(line(2, "same", true), kBegin)), Texts{"same"});
}

TEST(LineFoldTest, FlushTellsAllThatIsHeldBackInOrder) {
  LineFold fold;
  for (const char* const text : {"one", "two"}) {
    for (int pid = 1; pid <= 3; ++pid) fold.add(line(pid, text), kBegin);
  }
  EXPECT_EQ(texts(fold.flush()),
            (Texts{"one [repeated 2x across 3 processes]", "two [repeated 2x across 3 processes]"}));
  EXPECT_EQ(fold.next_tick(), std::nullopt);
}

TEST(LineFoldTest, AtItsBoundsLinesAreShownInsteadOfRemembered) {
  LineFold fold;
  for (std::size_t i = 0; i < LineFold::kLinesMax; ++i) fold.add(line(1, "line " + std::to_string(i)), kBegin);
  for (int pid = 1; pid <= 3; ++pid) EXPECT_EQ(texts(fold.add(line(pid, "one more"), kBegin)), Texts{"one more"});
  const std::string large(LineFold::kTextMax + 1, 'x');
  LineFold empty;
  for (int pid = 1; pid <= 3; ++pid) EXPECT_EQ(texts(empty.add(line(pid, large), kBegin)), Texts{large});
}

TEST(LineFoldTest, ProcessesBeyondTheBoundAreCountedAsMore) {
  LineFold fold;
  const int count = static_cast<int>(LineFold::kProcessesMax) + 10;
  for (int pid = 1; pid <= count; ++pid) fold.add(line(pid, "hello"), kBegin);
  EXPECT_EQ(texts(fold.flush()), Texts{"hello [repeated " + std::to_string(count - 1) + "x across " +
                                       std::to_string(LineFold::kProcessesMax) + " or more processes]"});
}

TEST(LineFoldTest, NoLineIsLostWhateverComes) {
  // Each line is either output itself, or counted in exactly one "[repeated …" line.
  LineFold fold;
  std::size_t out = 0;
  const auto count = [&](const std::vector<OutputLine>& lines) {
    for (const auto& each : lines) {
      const std::size_t told = each.text.find(" [repeated ");
      out += told == std::string::npos ? 1 : std::stoul(each.text.substr(told + 11));
    }
  };
  std::uint32_t random = 1;
  constexpr std::size_t kLines = 20'000;
  for (std::size_t i = 0; i < kLines; ++i) {
    random = random * 1664525 + 1013904223;
    const auto pid = static_cast<std::int32_t>(random >> 28);
    count(fold.add(line(pid, "text " + std::to_string((random >> 20) % 40)), kBegin + i * 3ms));
  }
  count(fold.flush());
  EXPECT_EQ(out, kLines);
}

}  // namespace
}  // namespace pharos::actors
