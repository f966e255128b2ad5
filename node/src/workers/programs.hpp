#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "node/far_nodes.hpp"
#include "node/site.hpp"
#include "store/program_files.hpp"
#include "workers/job.hpp"

namespace pharos::node {

/// The files of jobs whose driver is at another node: executables, libraries, and what else they take along. A file
/// that is on no disk here is fetched from the driver's node or from another node that has it, and only once, however
/// many jobs need it.
/// Owned by Jobs; on the node's strand. Its coroutines run in the node's background group, which ends before it.
class Programs {
 public:
  /// Tells the user of a job that something is not as on the driver's machine. Called on the strand.
  using Warn = std::function<void(Job& job, const std::string& warning)>;

  Programs(Site& site, FarNodes& far_nodes, Warn warn) : site_{site}, far_nodes_{far_nodes}, warn_{std::move(warn)} {}

  /// Opens the executable of a job (Job::executable), and prepares the folder and the environment of its program. Files
  /// that are not here are fetched from one of `sources`, the first of which is asked first. Attempts that may succeed
  /// later are repeated, for 5 minutes without a new byte. Fails with kNotFound if no source has them any more,
  /// kRuntimeStopped if the job has ended, kCancelled, or an error of open_program() or ArrivingProgram::receive().
  async::Async<Result<void>> obtain(std::shared_ptr<Job> job, std::vector<NodeId> sources);
  /// Sends files of a job to the node at the other end of the socket, or says that the job has ended. `job` is null if
  /// the job is not here. Closes the socket if the files are still on their way to this node.
  void serve(const Job* job, Fd socket);
  /// Removes what was made here for this job alone.
  void forget(Job& job);
  /// The number of files that are being fetched.
  std::size_t coming() const { return coming_.size(); }

 private:
  async::Async<Result<ProgramHere>> open(std::shared_ptr<Job> job);
  void take(Job& job, ProgramHere here);
  /// Whether another job fetches one of these files, and who waits for that.
  std::vector<async::Completion<void>>* coming_of(const std::vector<wire::BuildId>& files);
  async::Async<Result<void>> fetch(std::shared_ptr<Job> job, std::vector<wire::BuildId> missing,
                                   std::vector<NodeId> sources);
  async::Async<Result<void>> fetch_some(std::shared_ptr<Job> job, NodeId from, std::shared_ptr<ArrivingProgram> into);

  Site& site_;
  FarNodes& far_nodes_;
  const Warn warn_;
  std::map<wire::BuildId, std::vector<async::Completion<void>>> coming_;  // and jobs that wait for them
};

}  // namespace pharos::node
