#pragma once

#include <pharos/async/async_group.hpp>
#include <pharos/async/executor.hpp>

#include "node/host.hpp"
#include "node/settings.hpp"
#include "node/to_head.hpp"

namespace pharos::node {

/// Where the parts of a node are: its strand, its machine, its settings, its head, and the coroutines that run for it.
/// Owned by Node. Outlives the parts, which use it on the strand. The executor, the Host and the group outlive the
/// parts' use of it; Node destroys the group, which must be empty by then, before the parts.
struct Site {
  async::Executor& executor;
  Host& host;
  const NodeSettings settings;
  ToHead head;
  async::AsyncGroup& background;
};

}  // namespace pharos::node
