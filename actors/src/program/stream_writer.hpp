#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/clock.hpp>

namespace pharos::actors {

/// Writes texts to the program's own streams, on a thread of its own that the first text starts. A reader that is slow,
/// or reads nothing, therefore blocks no other thread. Texts are written in their order, and their lines stay whole
/// among the lines that the program itself prints.
/// Threads: write() from any; finish() from one, when no other thread writes any more. The destructor calls finish().
/// Failure: bytes that a stream does not take, because it is closed or its disk is full, are dropped, and `written`
/// runs as if they were written. The queue has no bound of its own: a caller that writes much waits for `written`
/// before it goes on.
class StreamWriter {
 public:
  using Written = async::UniqueFunction<void()>;

  /// `patience`: how long finish() waits for a reader that takes nothing.
  explicit StreamWriter(Duration patience);
  StreamWriter(StreamWriter&&) = delete;
  ~StreamWriter();

  /// Queues a text. `written`, if there is one, runs on the writing thread after the text is written. It must not
  /// throw.
  void write(FILE* to, std::string text, Written written = {});
  /// Waits until all texts are written. Returns how many bytes are dropped because the reader of a stream has taken
  /// nothing for `patience`; 0 if all are written. The `written` of the dropped texts never runs. The thread is then
  /// left behind, blocked in its write, so the streams must live as long as the process.
  std::size_t finish();

 private:
  struct Text {
    FILE* to;
    std::string text;
    Written written;
  };
  // Shared with the thread, which may stay blocked in a write after finish() has given up.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Text> texts;  // the first is being written
    std::size_t unwritten = 0;
    bool ends = false;
    bool ended = false;
    bool abandoned = false;

    void write_all();
    bool write_one(const Text& text);
  };

  const Duration patience_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_;
};

}  // namespace pharos::actors
