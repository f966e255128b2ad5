#include "program/stream_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <string>

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;

/// A stream that writes to a pipe, and the read end of the pipe.
class StreamWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_end_ = ends[0];
    capacity_ = static_cast<std::size_t>(::fcntl(ends[0], F_GETPIPE_SZ));
    stream_ = ::fdopen(ends[1], "w");
  }
  void TearDown() override {
    if (stream_ != nullptr) std::fclose(stream_);
    if (read_end_ >= 0) ::close(read_end_);
  }
  std::string read(std::size_t bytes) const {
    std::string text(bytes, '\0');
    std::size_t have = 0;
    while (have < bytes) {
      const ssize_t n = ::read(read_end_, text.data() + have, bytes - have);
      if (n <= 0) break;
      have += static_cast<std::size_t>(n);
    }
    text.resize(have);
    return text;
  }

  int read_end_ = -1;
  std::size_t capacity_ = 0;
  FILE* stream_ = nullptr;
};

TEST_F(StreamWriterTest, TextsComeOutInTheirOrderBehindWhatTheProgramPrintedBefore) {
  StreamWriter writer{10s};
  std::fputs("printed\n", stream_);
  writer.write(stream_, "one\n");
  writer.write(stream_, "two\n");
  EXPECT_EQ(writer.finish(), 0u);
  EXPECT_EQ(read(16), "printed\none\ntwo\n");
}

TEST_F(StreamWriterTest, WhoeverWritesWaitsForNobodyAndHearsWhenItHasBeenTaken) {
  StreamWriter writer{10s};
  const std::string text(2 * capacity_, 'x');
  std::promise<void> written;
  auto taken = written.get_future();
  writer.write(stream_, text + '\n', [&] { written.set_value(); });
  EXPECT_EQ(taken.wait_for(0s), std::future_status::timeout) << "of what does not fit into the pipe";
  EXPECT_EQ(read(text.size() + 1), text + '\n');
  EXPECT_EQ(taken.wait_for(10s), std::future_status::ready);
}

TEST_F(StreamWriterTest, ItsEndWaitsForAReaderThatReads) {
  StreamWriter writer{10s};
  std::string text;
  for (int i = 0; text.size() < 8 * capacity_; ++i) text += std::to_string(i) + '\n';
  writer.write(stream_, text);
  auto all = std::async(std::launch::async, [&] { return read(text.size()); });
  EXPECT_EQ(writer.finish(), 0u);
  EXPECT_EQ(all.get(), text);
}

TEST_F(StreamWriterTest, ItsEndDropsWhatNobodyReadsInTime) {
  const std::string line = std::string(99, 'x') + '\n';
  std::string text;
  while (text.size() < 2 * capacity_) text += line;
  bool written = false;
  {
    StreamWriter writer{50ms};
    writer.write(stream_, text, [&] { written = true; });
    const std::size_t dropped = writer.finish();
    EXPECT_GT(dropped, text.size() - capacity_ - 1);
    EXPECT_LE(dropped, text.size());
  }
  EXPECT_FALSE(written);
  // The thread of the writer still waits for room, so the pipe stays open.
  stream_ = nullptr;
  read_end_ = -1;
}

}  // namespace
}  // namespace pharos::actors
