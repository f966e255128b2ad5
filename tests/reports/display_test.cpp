#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/ml/display.hpp>

namespace pharos::ml {
namespace {

TEST(CutLines, CountsCharactersAndNotBytes) {
  EXPECT_EQ(cut_lines("abcdef\nab\n", 4), "abcd\nab\n");
  EXPECT_EQ(cut_lines("\u00e4\u2588\u00fcx\n", 2), "\u00e4\u2588\n");
  EXPECT_EQ(cut_lines("", 4), "");
  EXPECT_EQ(cut_lines("a\n\nb", 0), "\n\n");
}

/// A terminal that is the standard error for as long as this lives.
class NarrowTerminal {
 public:
  explicit NarrowTerminal(unsigned short columns) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = 10;
    int ours = -1;
    int shown = -1;
    EXPECT_EQ(::openpty(&ours, &shown, nullptr, nullptr, &size), 0);
    ours_ = Fd{ours};
    EXPECT_EQ(::fcntl(ours, F_SETFL, O_NONBLOCK), 0);
    const Fd other{shown};
    EXPECT_EQ(::dup2(shown, STDERR_FILENO), STDERR_FILENO);
  }
  ~NarrowTerminal() { ::dup2(before_.get(), STDERR_FILENO); }
  NarrowTerminal(NarrowTerminal&&) = delete;

  std::string shown() const {
    std::array<char, 4096> bytes{};
    const ssize_t got = ::read(ours_.get(), bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

 private:
  const Fd before_{::dup(STDERR_FILENO)};
  Fd ours_;
};

TEST(DisplayTest, ALineThatIsWiderThanTheTerminalIsReplacedAsOneLine) {
  const NarrowTerminal terminal{20};
  Display display;
  const std::string wide = std::string(30, 'a') + '\n';
  display.draw(wide);
  EXPECT_EQ(terminal.shown(), std::string(20, 'a') + "\r\n");
  display.draw("b\n");
  EXPECT_EQ(terminal.shown(), "\x1b[1A\x1b[Jb\r\n");
}

}  // namespace
}  // namespace pharos::ml
