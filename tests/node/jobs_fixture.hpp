#pragma once

// Jobs, and workers of them, on a machine that starts no process.

#include <memory>

#include "workers/jobs.hpp"
#include "workers_fixture.hpp"

namespace pharos::node {

class JobsFixture : public WorkersFixture, public Jobs::Owner {
 protected:
  void on_caller_ended(const Client&) override { ++ended_callers; }
  void on_job_stops(JobId) override {}
  void on_job_ended(const std::shared_ptr<Job>&) override {}

  /// The head adds a job, whose zygote then loads the program. What the zygote is sent is in `zygote`.
  std::shared_ptr<Job> add_job() {
    host.opened = "";
    jobs.add_far({JobId{1}, {}, NodeId{2}});
    executor.run_until_idle();
    zygote = host.links.back();
    const auto added = jobs.find(JobId{1});
    Zygotes::on_ready(*added, *added->zygote.peer, {});
    executor.run_until_idle();
    take_told();
    return added;
  }
  /// A driver of the job that add_job() has added. What it is sent is in `client_link`.
  Client client() {
    Client client{clients.add(Fd{}, net::Descriptors::kAccepted), jobs.find(JobId{1}), nullptr, CallerId{4}};
    clients.set(client);
    client_link = host.links.back();
    return client;
  }

  int ended_callers = 0;
  std::shared_ptr<FakeLink> client_link;
  FarNodes far_nodes{executor, host, site.head, NodeId{1}, "head"};
  Jobs jobs{site, clients, far_nodes, workers, output, *this};
};

}  // namespace pharos::node
