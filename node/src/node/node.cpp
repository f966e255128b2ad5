#include "node/node.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <pharos/base/overloaded.hpp>

#include "node/demands.hpp"
#include "node/senders.hpp"

namespace pharos::node {

// ---- Start and end of the node

Node::Node(async::Executor& executor, Host& host, const Settings& settings, Tell tell_head, Queued queued_to_head)
    : site_{executor, host, settings, ToHead{std::move(tell_head)}, background_},
      clients_{executor, host, *this},
      far_nodes_{executor, host, site_.head, settings.id, settings.head_address},
      questions_{site_.head, [this](const Asked& asked) { task_leases_.forget_question(asked); }},
      logs_{[&host](auto work, auto done) { host.run_blocking(std::move(work), std::move(done)); }, settings.logs,
            settings.id, settings.head_address.empty() ? "head" : "node"},
      store_{executor, host, settings.object_store, [this](NodeId node) { return far_nodes_.find(node); }},
      output_{site_.head, std::move(queued_to_head)},
      workers_{site_, clients_, output_, logs_, *this},
      jobs_{site_, clients_, far_nodes_, workers_, output_, *this},
      book_{LeaseBook::leases_of(settings.machine.resources),
            [this](const scheduler::LeaseEffect& effect) { carry_out(effect); },
            [this] {
              incarnations_.release_unused();
              task_leases_.settle();
            }},
      hand_overs_{site_, [this](WorkerId worker) { return workers_.find(worker); }},
      task_leases_{site_, book_, clients_, questions_, jobs_, workers_, hand_overs_},
      far_leases_{site_, far_nodes_, questions_,
                  [this](const wire::LeaseGranted& granted) { return task_leases_.take_from_elsewhere(granted); },
                  [this](WorkerId worker, const Asked& asked) { return task_leases_.hand_over(worker, asked); }},
      incarnations_{site_, book_, jobs_, workers_},
      call_paths_{site_, clients_, far_nodes_, questions_, workers_, hand_overs_},
      memory_{site_, book_, workers_},
      inspections_{site_, book_, workers_, incarnations_, far_leases_},
      user_questions_{site_,
                      clients_,
                      far_nodes_,
                      questions_,
                      logs_,
                      ProcessListing{site_, jobs_, workers_},
                      GpuListing{site_, workers_},
                      ObjectListing{site_, store_, clients_}},
      background_{executor} {}

Node::~Node() = default;

void Node::close() {
  background_.cancel();
  store_.close();
  hand_overs_.close();
  clients_.close();
}

std::string Node::leftovers() const {
  std::string left;
  const auto count = [&](const char* what, std::size_t n) {
    if (n != 0) left += "node " + to_string(site_.settings.id) + ": " + what + ": " + std::to_string(n) + '\n';
  };
  count("connections", clients_.size());
  count("jobs", jobs_.all().size());
  count("workers", workers_.all().size());
  count("programs that come", jobs_.coming_programs());
  count("lease requests", task_leases_.waiting());
  count("questions to the head", questions_.all().size());
  count("requests that others are asked for", task_leases_.asked_elsewhere());
  count("far leases", far_leases_.all().size());
  count("starting", incarnations_.starting().size());
  count("hand-overs", hand_overs_.size());
  count("bundles", incarnations_.bundles().size());
  count("inspections", inspections_.size());
  count("questions for nodes", far_nodes_.asked());
  count("coroutines", background_.size());
  return left + book_.leftovers() + store_.leftovers();
}

std::vector<std::pair<ActorId, std::uint32_t>> Node::incarnations() const {
  std::vector<std::pair<ActorId, std::uint32_t>> all;
  for (const auto& [id, worker] : workers_.all()) {
    const Incarnation& runs = worker->incarnation;
    if (runs.actor && worker->process.life.state() != WorkerState::kFailed) all.emplace_back(runs.actor, runs.number);
  }
  return all;
}

void Node::leave(Duration grace) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
  site_.head.tell(wire::DrainNode{site_.settings.id, static_cast<std::uint32_t>(milliseconds)});
}

// ---- Connections

std::shared_ptr<net::Peer> Node::add_driver(Fd socket) {
  return clients_.add(std::move(socket), net::Descriptors::kAccepted);
}

void Node::when_gone(const std::shared_ptr<net::Peer>& driver, std::function<void()> then) {
  clients_.when_gone(*driver, std::move(then));
}

void Node::serve_far(const Introduction& introduction, Fd socket) {
  using Purpose = Introduction::Purpose;
  switch (introduction.purpose) {
    case Purpose::kServeCaller: return call_paths_.serve_far(introduction, std::move(socket));
    case Purpose::kClaims: return store_.add_neighbour(NodeId{introduction.caller}, std::move(socket));
    case Purpose::kPull:
      return site_.host.serve_pull(std::move(socket),
                                   [this](const object_store::PullRequest& request, Host::TakePullAnswer then) {
                                     answer_pull(request, std::move(then));
                                   });
    case Purpose::kAsk: clients_.add(std::move(socket), net::Descriptors::kRefused); return;
    case Purpose::kProgram: return jobs_.serve_program(JobId{introduction.caller}, std::move(socket));
    case Purpose::kJoin: break;
  }
}

void Node::on_message(net::Peer& from, net::Parcel parcel, Request request) {
  const auto found = clients_.find(from);
  if (!found) return;
  const Client& client = *found;
  if (client.job == nullptr) {
    if (!request || on_other_message(client, parcel, *request)) return;
    from.respond(*request, Error{ErrorCode::kFailedPrecondition, "no job was registered here"});
    return;
  }
  if (!client.caller) return on_zygote_message(client, std::move(parcel));
  if (store_.on_message(client.peer, client.caller, parcel, request)) return;
  if (client.worker == nullptr && client.job->driver == nullptr) {  // the driver was told that its job has ended
    if (request) from.respond(*request, Error{ErrorCode::kRuntimeStopped, "the program has ended"});
    return;
  }
  const bool known = on_caller_message(client, parcel.message, request) ||
                     (client.worker != nullptr ? on_worker_message(client, parcel)
                                               : on_driver_message(client, parcel.message, request));
  if (!known && request) {
    from.respond(*request, Error{ErrorCode::kUnsupported,
                                 "a caller cannot ask for " + std::string{wire::name_of(parcel.message)}});
  }
}

bool Node::on_caller_message(const Client& client, wire::Message& message, Request request) {
  const bool is_for_here = dispatch<FromCaller>(message, Overloaded{
                                                             [&](const wire::LeaseWorker& lease) {
                                                               if (request)
                                                                 task_leases_.request(client, lease, *request);
                                                             },
                                                             [&](const wire::ReturnLease& returned) {
                                                               if (far_leases_.take_back(returned, client.caller))
                                                                 return;
                                                               task_leases_.take_back(returned, client.caller);
                                                             },
                                                             [&](const wire::Inspect&) {
                                                               if (request) inspections_.answer(client, *request);
                                                             },
                                                         });
  if (is_for_here) return true;
  return dispatch<FromCallerToHead>(message,
                                    [&](auto& question) { questions_.pass_on(client, std::move(question), request); });
}

bool Node::on_driver_message(const Client& client, wire::Message& message, Request request) {
  return dispatch<FromDriver>(message, Overloaded{
                                           [&](const wire::Done&) { client.job->unshown.take_one(); },
                                           [&](const wire::Stop&) {
                                             if (request) jobs_.stop_everywhere(client.job, *request);
                                           },
                                       });
}

bool Node::on_worker_message(const Client& client, net::Parcel& parcel) {
  Worker& worker = *client.worker;
  return dispatch<FromWorker>(
      parcel.message,
      Overloaded{
          [&](const wire::WorkerBlocked& now) {
            book_.tell_all([&](scheduler::Leases& leases) {
              return now.blocked ? leases.blocked(worker.id) : leases.unblocked(worker.id);
            });
          },
          [&](const wire::WorkerForked& forked) {
            workers_.on_forked(worker, forked.pid, std::move(parcel.descriptors.front()));
          },
          [&](const wire::ActorConstructed& constructed) { incarnations_.on_constructed(worker, constructed); },
      });
}

void Node::on_zygote_message(const Client& client, net::Parcel parcel) {
  dispatch<FromZygote>(
      parcel.message,
      Overloaded{
          [&](const wire::ZygoteReady& ready) { Zygotes::on_ready(*client.job, *client.peer, ready); },
          [&](const wire::WorkerForked& forked) { workers_.on_forked(forked, std::move(parcel.descriptors.front())); },
          [&](const wire::WorkerReaped& reaped) { workers_.on_reaped(reaped); },
          [&](const wire::WorkerCrashed& crashed) { workers_.on_crashed(crashed); },
      });
}

bool Node::on_other_message(const Client& client, net::Parcel& parcel, std::uint64_t request) {
  return dispatch<FromOthers>(
      parcel.message, Overloaded{
                          [&](const wire::RegisterJob&) { jobs_.add(client.peer, std::move(parcel), request); },
                          [&](wire::ListRows& list) { user_questions_.list(client, std::move(list), request); },
                          [&](wire::ReadLog& read) { user_questions_.read_log(client, std::move(read), request); },
                          [&](wire::DrainNode& drain) { user_questions_.ask_head(client, drain, request); },
                          [&](wire::RotateToken& rotate) { user_questions_.ask_head(client, rotate, request); },
                          [&](const wire::EndNode&) {
                            const std::string has_head = site_.settings.head_address.empty() ? "yes" : "no";
                            client.peer->respond(
                                request,
                                wire::Rows{{"node", "head"}, {{to_string(site_.settings.id), has_head}}, 1, 0});
                            end_();
                          },
                      });
}

void Node::on_peer_closed(net::Peer& peer, const Error&) {
  const auto found = clients_.take_closed(peer);
  if (!found) return;
  const Client& client = *found;  // keeps the peer until this function is done
  if (client.job == nullptr) {
    questions_.forget_if([&](const Client& each) { return each.peer == client.peer; });
  } else if (client.worker != nullptr) {
    on_caller_ended(client);
    workers_.on_connection_ended(client.worker);
  } else if (client.caller) {
    jobs_.end_driver(client.job);
  } else {
    workers_.on_zygote_ended(*client.job, *client.peer);
    jobs_.on_zygote_ended(client.job, *client.peer);
  }
}

// ---- Ends

// Orphans of workers become children of this process, and so do workers whose zygote is gone.
void Node::on_child_ended(pid_t pid, int status) {
  workers_.on_child_ended(pid, status);
  jobs_.on_child_ended(pid, status);
}

void Node::forget_if(const std::function<bool(const Client&)>& of) {
  task_leases_.forget_if(of);
  questions_.forget_if(of);
  far_leases_.forget_if(of);
}

// The requests of the caller are forgotten, and its leases and holds end.
void Node::on_caller_ended(const Client& caller) {
  forget_if([&](const Client& each) { return each.caller == caller.caller; });
  book_.tell_all([&](scheduler::Leases& leases) { return leases.lessee_ended(caller.caller); });
  questions_.holds().forget(caller.caller);
  site_.head.tell(wire::EndCaller{caller.caller});
}

void Node::on_job_ended(const std::shared_ptr<Job>& job) {
  forget_if([&](const Client& each) { return each.job == job; });
  book_.tell_all([&](scheduler::Leases& leases) { return leases.job_ended(job->id); });
  questions_.holds().forget(job->caller);
}

void Node::on_worker_ended(const Worker& worker, const std::string& reason) {
  task_leases_.end_worker(worker, reason);
  incarnations_.on_worker_ended(worker, reason);
}

wire::JobRegistered Node::registration_of(const Job& job, CallerId caller) const {
  return jobs_.registration_of(job, caller);
}

// ---- Leases

void Node::carry_out(const scheduler::LeaseEffect& effect) {
  std::visit(Overloaded{
                 [&](const scheduler::Grant& grant) { task_leases_.grant(grant); },
                 [&](const scheduler::StartWorker& start) { task_leases_.start(start); },
                 [&](const scheduler::EndWorker& end) {
                   if (const auto worker = workers_.find(end.worker)) workers_.end(worker);
                 },
                 [&](const scheduler::Refuse& refused) { task_leases_.refuse(refused); },
                 [&](const scheduler::Recall& recalled) { task_leases_.recall(recalled); },
                 [&](const scheduler::Reserved& reserved) { incarnations_.on_reserved(reserved.reservation); },
             },
             effect);
}

// ---- The head

void Node::on_head_message(wire::Message message) {
  dispatch<FromHead>(message,
                     Overloaded{
                         [&](wire::StartIncarnation& start) { incarnations_.start(std::move(start)); },
                         [&](const wire::EndIncarnation& end) { incarnations_.end(end); },
                         [&](const wire::HoldBundle& hold) { incarnations_.hold(hold); },
                         [&](const wire::ReleaseBundle& release) { incarnations_.release(release); },
                         [&](const wire::IncarnationEnded& ended) { tell_holders(ended); },
                         [&](const wire::ActorAlive& alive) { call_paths_.on_alive(alive); },
                         [&](const wire::ActorFound& found) { questions_.on_found(found); },
                         [&](const wire::ActorHeld& held) { questions_.on_answer(held.number, held); },
                         [&](const wire::GroupReady& ready) { questions_.on_answer(ready.number, ready); },
                         [&](const wire::NodesListed& listed) { questions_.on_answer(listed.number, listed); },
                         [&](const wire::ValueRead& read) { questions_.on_answer(read.number, read); },
                         [&](const wire::ValueWritten& written) { questions_.on_answer(written.number, written); },
                         [&](const wire::KeysListed& listed) { questions_.on_answer(listed.number, listed); },
                         [&](const wire::Rows& rows) { questions_.on_answer(rows.number, rows); },
                         [&](const wire::Refused& refused) { on_refused(refused); },
                         [&](wire::Inspected& inspected) { inspections_.on_inspected(std::move(inspected)); },
                         [&](const wire::NodeFound& found) { far_nodes_.on_found(found); },
                         [&](wire::AddJob& job) { jobs_.add_far(std::move(job)); },
                         [&](const wire::EndJob& end) { jobs_.end(end.job); },
                         [&](const wire::StopJob& stop) { jobs_.stop_here(stop.job); },
                         [&](const wire::JobStopped& stopped) { jobs_.on_stopped_everywhere(stopped.job); },
                         [&](const wire::Output& output) {
                           if (const auto job = jobs_.find(output.job)) output_.send_far(*job, output);
                         },
                         [&](const wire::DrainNode&) { drain(); },
                         [&](const wire::RotateToken& rotated) { site_.host.take_token(rotated); },
                         [&](const wire::ClusterJoined& joined) { note_cluster(joined); },
                         [&](const wire::Confirmed& confirmed) { site_.head.confirm(confirmed.count); },
                         [&](const wire::LeaseWorker& lease) { task_leases_.request_for_far(lease); },
                         [&](const wire::ReturnLease& returned) { task_leases_.take_back(returned, returned.caller); },
                         [&](const wire::EndCaller& ended) { task_leases_.end_far_lessee(ended.caller); },
                         [&](const wire::LeaseGranted& granted) { far_leases_.reach(granted); },
                         [&](const wire::WorkerEnded& ended) { far_leases_.on_ended(ended); },
                         [&](const wire::RecallLeases& recalled) { far_leases_.on_recalled(recalled); },
                     });
}

void Node::drain() {
  task_leases_.drain();
  const bool works = std::ranges::any_of(workers_.all(), [this](const auto& entry) {
    return entry.second->incarnation.actor || book_.lessee_of(entry.first).has_value();
  });
  if (store_.move_out() && !works) site_.head.tell(wire::NodeEmpty{});
}

void Node::on_refused(const wire::Refused& refused) {
  if (const auto asked = questions_.take(refused.number)) {
    if (asked->waits_here) return task_leases_.found_no_room(asked->waits_here);
    questions_.on_refused(*asked, refused.why);
  }
  far_nodes_.on_refused(refused);
}

/// Tells the callers here that hold an actor that its node was lost. They may still be connected to the actor.
void Node::tell_holders(const wire::IncarnationEnded& ended) const {
  for (const auto& [caller, client] : clients_.callers()) {
    if (questions_.holds().contains(caller, ended.actor)) client.peer->send(ended);
  }
}

}  // namespace pharos::node
