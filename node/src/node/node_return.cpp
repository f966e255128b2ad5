// What a node tells a head that has started again.

#include <utility>

#include "node/node.hpp"

namespace pharos::node {
namespace {

constexpr std::size_t kReportMax = 16384;  // entries of one report

/// Collects entries in as many reports as they need.
class Reports {
 public:
  template <class Entry>
  void add(std::vector<Entry> wire::Report::*list, Entry entry) {
    if (entries_++ % kReportMax == 0) all_.emplace_back();
    (all_.back().*list).push_back(std::move(entry));
  }
  std::vector<wire::Report> all() && {
    if (all_.empty()) all_.emplace_back();
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) all_[i].more = true;
    return std::move(all_);
  }

 private:
  std::vector<wire::Report> all_;
  std::size_t entries_ = 0;
};

}  // namespace

void Node::return_to_head() {
  site_.head.tell_again();
  for (wire::Report& each : report()) site_.head.tell(std::move(each));
  jobs_.ask_again();
  task_leases_.drop_far_requests();
  questions_.ask_again();
  far_nodes_.ask_again();
  task_leases_.load().tell_again();
}

std::vector<wire::Report> Node::report() const {
  using wire::Report;
  Reports reports;
  for (const auto& [id, job] : jobs_.all()) reports.add(&Report::jobs, id);
  for (const auto& [caller, client] : clients_.callers()) {
    reports.add(&Report::callers, Report::Caller{caller, client.job->id});
  }
  for (const Report::Hold& hold : questions_.holds().list()) reports.add(&Report::holds, hold);
  for (const auto& [reservation, starting] : incarnations_.starting()) {
    reports.add(&Report::incarnations, Report::Incarnation{starting.start.actor, starting.start.incarnation, false});
  }
  for (const auto& [id, worker] : workers_.all()) {
    const Incarnation& runs = worker->incarnation;
    const CallerId far_user = worker->leased_to.far_user;
    if (runs.actor) {
      reports.add(&Report::incarnations, Report::Incarnation{runs.actor, runs.number, runs.constructed});
    } else if (far_user && book_.lessee_of(id) == far_user) {
      reports.add(&Report::lent, Report::Lease{id, far_user, worker->job->id});
    }
  }
  for (const auto& [key, bundle] : incarnations_.bundles().all()) {
    reports.add(&Report::bundles, Report::Bundle{key.first, key.second});
    if (!bundle.held) reports.add(&Report::unheld, Report::Bundle{key.first, key.second});
  }
  for (const auto& [worker, lease] : far_leases_.all()) reports.add(&Report::borrowed, worker);
  for (const auto& [number, asked] : questions_.all()) {
    if (asked.granted) reports.add(&Report::borrowed, asked.granted);
    const ActorId made = actor_made_by(asked.question);
    if (made && !questions_.holds().contains(asked.client.caller, made)) {  // the caller has let go of it already
      reports.add(&Report::holds, Report::Hold{asked.client.caller, made, 0});
    }
  }
  return std::move(reports).all();
}

}  // namespace pharos::node
