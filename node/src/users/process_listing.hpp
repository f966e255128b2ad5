#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <pharos/async/async.hpp>
#include <pharos/wire/message.hpp>

#include "node/client.hpp"
#include "node/site.hpp"
#include "workers/jobs.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// Answers users who ask what the processes of this node do. There are three lists: "workers"; "tasks", the calls and
/// tasks that run in them; and "stacks", which also says where the threads of workers and programs are, and what they
/// wait for. Zygotes read the stacks, and the processes themselves say what they run. Failure: kInvalidArgument if
/// `asked` filters by a column that there is not. A process that does not answer in time, or that the bounds leave out,
/// has a row that says so, but is missing among the tasks. If the node closes, nobody is answered. Owned by
/// UserQuestions; on the node's strand. Its coroutines run in the node's background group, and use the Jobs and Workers
/// that were given. Bounds: looks at 4 processes at once if it reads stacks, and else at 64, begins with none after 3 s
/// or 3 MiB of text, and so answers within about 8 s.
class ProcessListing {
 public:
  ProcessListing(Site& site, const Jobs& jobs, const Workers& workers) : site_{site}, jobs_{jobs}, workers_{workers} {}

  static bool has(const std::string& table) { return table == "workers" || table == "tasks" || table == "stacks"; }
  /// Answers with the rows that `asked` selects.
  void answer(const std::shared_ptr<net::Peer>& from, const wire::ListRows& asked, std::uint64_t request) {
    site_.background.spawn(list(from, asked, request));
  }

 private:
  /// The table, while it is filled.
  struct Table;
  /// The processes of a row; null if there is none, or it is gone.
  struct Row {
    WorkerId worker{};
    std::shared_ptr<net::Peer> process{};
    std::shared_ptr<net::Peer> zygote{};
  };

  async::Async<void> list(std::shared_ptr<net::Peer> from, wire::ListRows asked, std::uint64_t request);
  wire::Rows list_processes(bool has_drivers) const;
  async::Async<void> look_at_next(std::shared_ptr<Table> table);
  async::Async<void> look_at(std::shared_ptr<Table> table, std::size_t row);
  Row find(const std::string& id) const;

  Site& site_;
  const Jobs& jobs_;
  const Workers& workers_;
};

}  // namespace pharos::node
