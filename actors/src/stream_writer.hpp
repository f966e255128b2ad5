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

/// Writes to the program's own streams on a thread of its own, which it starts for the first text: whoever reads
/// slowly, or not at all, holds nobody else up. Texts come out in their order; one's whole lines stay whole among what
/// the program itself prints. Threads: write() from any; finish() from one, when nobody writes any more. Failure: what
/// a stream does not take, because it is closed or its disk is full, is dropped. End: finish(). Bounds: none of its
/// own; whoever writes much goes on when `written` is called.
class StreamWriter {
 public:
  using Written = async::UniqueFunction<void()>;

  /// `patience`: how long finish() waits for a reader that takes nothing.
  explicit StreamWriter(Duration patience);
  StreamWriter(StreamWriter&&) = delete;
  ~StreamWriter();

  /// `written`, if any, runs on the writing thread.
  void write(FILE* to, std::string text, Written written = {});
  /// Waits until all is written. How many bytes nobody has read in time and are dropped.
  std::size_t finish();

 private:
  struct Text {
    FILE* to;
    std::string text;
    Written written;
  };
  // The thread's too, which stays behind in its write when nobody reads.
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
