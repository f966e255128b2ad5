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

#include "program/line_fold.hpp"
#include "program/stream_writer.hpp"

namespace pharos::actors {

/// Prints the lines that workers write, to the stream that each line was written to, after the worker's name and
/// process id. Equal lines of many workers are folded (line_fold.hpp). The prefix is coloured on a terminal, unless
/// NO_COLOR is set.
/// Owned by a Driver. Used on the reactor's strand, except where a function says otherwise. The reactor must outlive
/// it. Failures of the streams are those of StreamWriter. It never blocks the strand, because a thread of its own
/// writes. It has no bound of its own: the node sends no more while too much is not shown.
class Output : public std::enable_shared_from_this<Output> {
 public:
  Output(net::Reactor& reactor, bool folds);

  /// Prints some lines of a worker. `shown` runs once those lines are written that are not held back, on the writing
  /// thread, in the order of the calls. It never runs if flush() gives those lines up. The listeners are called inside
  /// this function; an exception of one ends the process.
  void print(const wire::Output& output, StreamWriter::Written shown);
  /// Calls the listener with all later output, for as long as somebody keeps it alive; this object does not. Any
  /// thread.
  void add_listener(const std::shared_ptr<const OutputListener>& listener);
  /// Writes a text to standard error, without waiting for the workers' lines to be written. Any thread.
  void report(std::string text) { reports_.write(stderr, std::move(text)); }
  /// Shows the lines that are held back, and waits until everything is written, for as long as the streams' readers
  /// take something. When a reader has taken nothing for 30 s, the rest is dropped; for the workers' lines a warning
  /// says so. The destructor shows no line that is held back. flush() is called only when no more output comes and no
  /// other thread uses this object.
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
