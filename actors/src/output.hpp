#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/worker_output.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/wire/message.hpp>

#include "line_fold.hpp"
#include "stream_writer.hpp"

namespace pharos::actors {

/// Prints what workers write, each line with the worker's name and process before it, to the stream it was written to;
/// lines that many of them write alike are folded (line_fold.hpp). In colour on a terminal, unless NO_COLOR is set.
/// Owned by a Driver. On the reactor's strand, but flush(). Never blocks it: a thread of its own writes.
/// Bounds: none of its own; the node sends so much that is not shown, and no more.
class Output : public std::enable_shared_from_this<Output> {
 public:
  Output(net::Reactor& reactor, bool folds);

  /// `shown` runs on any thread, in the order of the calls.
  void print(const wire::Output& output, StreamWriter::Written shown);
  /// As long as somebody has it. Any thread.
  void add_listener(const std::shared_ptr<const OutputListener>& listener);
  /// To standard error, and not behind what workers write.
  void report(std::string text) { reports_.write(stderr, std::move(text)); }
  /// What is still held back, and what is not written yet, as long as somebody reads. When no more comes, and nobody
  /// else is in here.
  void flush();

 private:
  void tell(const wire::Output& output);
  void show(const std::vector<OutputLine>& lines, StreamWriter::Written shown = {});
  void tick_later();

  net::Reactor& reactor_;
  const bool folds_;
  const bool colours_[2];  // by stream: output, error
  bool ticks_ = false;
  LineFold fold_;
  StreamWriter writer_;
  StreamWriter reports_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<const OutputListener>> listeners_;
};

}  // namespace pharos::actors
