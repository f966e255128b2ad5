#pragma once

#include <memory>

#include <pharos/net/peer.hpp>

#include "workers/job.hpp"
#include "workers/worker.hpp"

namespace pharos::node {

/// A connection whose other end has proved itself, and what it is for. It has no job until its driver registers one. A
/// value that shares what it names; Clients has one for each connection. On the node's strand.
struct Client {
  std::shared_ptr<net::Peer> peer;
  std::shared_ptr<Job> job{};
  std::shared_ptr<Worker> worker{};  ///< null: this is the job's driver or zygote
  CallerId caller{};                 ///< unset: this is the zygote
};

}  // namespace pharos::node
