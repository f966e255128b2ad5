#pragma once

#include <cstdio>
#include <memory>
#include <vector>

#include <pharos/net/reactor.hpp>
#include <pharos/wire/message.hpp>

#include "line_fold.hpp"

namespace pharos::actors {

/// Prints what workers write, each line with the worker's name and process before it, to the stream it was written to;
/// lines that many of them write alike are folded (line_fold.hpp). In colour on a terminal, unless NO_COLOR is set.
/// Owned by a Driver. On the reactor's strand, but flush().
class Output : public std::enable_shared_from_this<Output> {
 public:
  Output(net::Reactor& reactor, bool folds);

  void print(const wire::Output& output);
  /// What is still held back. When no more comes, and nobody else is in here.
  void flush();

 private:
  void show(const std::vector<OutputLine>& lines);
  void tick_later();

  net::Reactor& reactor_;
  const bool folds_;
  const bool colours_[2];  // by stream: output, error
  bool ticks_ = false;
  LineFold fold_;
};

}  // namespace pharos::actors
