// A pool of actors. Each actor is made once, which may be expensive (a model, a connection), and the next piece of work
// goes to an actor that is free. Some pieces take much longer than others here, and yet all actors work until the end.
// Draws the Mandelbrot set line by line, and prints how many lines each actor drew.

#include <complex>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

constexpr int kPainters = 4;
constexpr int kMiddle = 15;  // the axis of symmetry
constexpr int kLines = 2 * kMiddle + 1;
constexpr int kColumns = 79;
constexpr int kTurnsMax = 50'000;

/// One line of the picture, and the number of the painter that drew the line.
struct Line {
  std::size_t painter = 0;
  int number = 0;
  std::string text{};
};

class Painter {
 public:
  Painter(std::size_t number, std::string shades) : number_{number}, shades_{std::move(shades)} {}

  Line paint(int line) const {
    std::string text;
    for (int column = 0; column < kColumns; ++column) {
      const std::complex<double> c{-2.1 + 2.8 * column / kColumns, 2.3 * (line - kMiddle) / kLines};
      text += shade(turns(c));
    }
    return {number_, line, text};
  }

 private:
  /// Returns how many turns a point stays near zero, at most kTurnsMax. A point of the set stays near zero for ever.
  static int turns(std::complex<double> c) {
    std::complex<double> z = 0;
    int turn = 0;
    while (turn < kTurnsMax && std::norm(z) < 4) {
      z = {z.real() * z.real() - z.imag() * z.imag() + c.real(), 2 * z.real() * z.imag() + c.imag()};
      ++turn;
    }
    return turn;
  }
  char shade(int turns) const {
    std::size_t shade = 0;
    while (shade + 1 < shades_.size() && turns > 3) {
      turns = turns * 2 / 3;
      ++shade;
    }
    return shades_[shade];
  }

  std::size_t number_;
  std::string shades_;
};

}  // namespace

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};

  std::vector<pharos::Actor<Painter>> painters;
  for (std::size_t i = 0; i < kPainters; ++i) painters.push_back(runtime.spawn<Painter>(i, " .:-=+*#%@"));

  // Each painter gets one line at first. A painter that has finished a line gets the next one.
  pharos::RefSet<Line> at_work;
  int next = 0;
  for (const auto& painter : painters) at_work.add(painter.call<&Painter::paint>(next++));
  std::vector<std::string> picture(kLines);
  std::vector<int> painted(kPainters);
  while (!at_work.empty()) {
    for (const auto& done : at_work.wait()) {
      const Line line = done.get();
      picture[static_cast<std::size_t>(line.number)] = line.text;
      ++painted[line.painter];
      if (next < kLines) at_work.add(painters[line.painter].call<&Painter::paint>(next++));
    }
  }

  for (const auto& line : picture) std::printf("%s\n", line.c_str());
  std::printf("\nlines painted by each:");
  for (const int count : painted) std::printf(" %d", count);
  std::printf("\n");

  // The set is its own mirror image, so the picture must be symmetric.
  int wrong = 0;
  for (std::size_t i = 0; i < picture.size(); ++i) {
    if (picture[i].size() != kColumns || picture[i] != picture[picture.size() - 1 - i]) ++wrong;
  }
  return wrong == 0 ? 0 : 1;
}
