#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/wire/message.hpp>

#include "daemon/nvml.hpp"
#include "node/site.hpp"
#include "workers/workers.hpp"

namespace pharos::node {

/// Answers users who ask for the GPUs that this node offers: how busy each one is, how much of its memory is in use,
/// and by whom. What the driver does not tell is empty; of a GPU that is only declared it tells nothing.
/// Failure: kInvalidArgument if `asked` filters by a column that there is not; kDeadlineExceeded if the driver does not
/// answer within 5 s, and kOverloaded as long as it has not answered an earlier question: a driver that hangs then
/// holds up one thread at most. If the node closes, nobody is answered. Owned by UserQuestions; on the node's strand,
/// but the driver is asked on another thread. Its coroutines run in the node's background group, and use the Workers
/// that were given.
class GpuListing {
 public:
  GpuListing(Site& site, const Workers& workers) : site_{site}, workers_{workers} {}

  /// Answers with the rows that `asked` selects.
  void answer(const std::shared_ptr<net::Peer>& from, const wire::ListRows& asked, std::uint64_t request) {
    site_.background.spawn(list(from, asked, request));
  }

 private:
  async::Async<void> list(std::shared_ptr<net::Peer> from, wire::ListRows asked, std::uint64_t request);
  wire::Rows rows_of(const std::vector<Gpu>& gpus) const;
  std::vector<std::string> holders_of(const std::string& name, const Gpu* gpu) const;

  Site& site_;
  const Workers& workers_;
  std::weak_ptr<void> under_way_;  // lives until the driver has answered the last question
};

}  // namespace pharos::node
