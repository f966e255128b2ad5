#include "head/head.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

#include "head/head_keys.hpp"
#include "link/said_again.hpp"
#include "node/demands.hpp"
#include "node/descriptions.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kReasonTime = 50ms;      // between the end of a connection and the report of how the process ended
constexpr auto kFarReasonTime = 500ms;  // the same, if the process is at another node than the caller
constexpr ByteCount kDiskReserve{std::uint64_t{12} << 20};
constexpr auto kEarlyTime = 1s;  // that a message about an unknown actor waits for the message of the actor's maker
constexpr std::size_t kEarlyMax = 65536;
constexpr auto kLetGoTime = 20ms;  // before the release of a handle counts

template <class Wanted>
Result<void> check_names(const Wanted& actor) {
  PHAROS_TRY_VOID(scheduler::check_name(actor.name));
  return scheduler::check_name(actor.name_space);
}

}  // namespace

// With records the numbers of requests begin at random: answers to requests of an earlier head may still be on their
// way.
Head::Head(async::Executor& executor, NodeId own, Records* records)
    : executor_{executor}, own_{own}, records_{records}, last_request_{records == nullptr ? 0 : random_u64()} {}

void Head::add_node(NodeId node, const NodeDescription& description, Tell tell) {
  nodes_.emplace(node, Node{.address = description.address, .tell = std::move(tell)});
  if (records_ != nullptr) {
    records_->put(node_key(node),
                  wire::JoinCluster{node, description.address, description.total.amounts(), description.labels});
  }
  scheduler::PlacementEffects effects;
  // A node that offers no resources exists for its driver alone.
  if (!description.total.empty()) effects = placement_.add_node(node, description.total, description.labels);
  this->tell(node, welcome());
  apply(effects);
  end_recovery_if_over();
  end_event();
}

void Head::remove_node(NodeId node, bool was_silent) {
  if (reporting_.erase(node) != 0) {  // it had not reported everything, and may try again
    expect(node, nodes_.extract(node).mapped().address);
    away_.erase(node);
    answer_who_looks_for(node);
    run_later(kReturnTime, [this] { give_up_the_overdue(); });
  } else if (const auto lost = nodes_.extract(node); !lost.empty()) {
    if (draining_.contains(node)) {
      log(LogLevel::kInfo, "a node has gone, as it was told to", {kv("node", node)});
    } else if (placement_.fleet().find(node) != nullptr) {
      log(LogLevel::kWarn, "a node is lost", {kv("node", node), kv("address", lost.mapped().address)});
    }
    lose_node(node, "its node, at " + lost.mapped().address + ", was lost", was_silent);
  } else if (const auto awaited = expected_.extract(node); !awaited.empty()) {
    lose_node(node, "its node, at " + awaited.mapped().address + ", did not come back to the head", true);
  }
  end_event();
}

void Head::lose_node(NodeId node, const std::string& reason, bool was_silent) {
  const bool drained = draining_.erase(node) != 0;
  away_.erase(node);
  answer_who_looks_for(node);
  if (records_ != nullptr) records_->erase(node_key(node));
  if (records_ != nullptr && drained) records_->erase(drain_key(node));
  reporting_.erase(node);
  std::erase_if(borrowed_, [node](const auto& entry) { return entry.second == node; });
  std::vector<JobId> jobs;
  for (auto& [id, job] : jobs_) {
    job.known_at.erase(node);
    if (job.node == node) jobs.push_back(id);
  }
  for (const JobId job : jobs) end_job(job);
  for (const auto& [id, job] : jobs_) job_stopped(id, node);
  std::vector<CallerId> callers;
  for (const auto& [caller, place] : callers_) {
    if (place.node == node) callers.push_back(caller);
  }
  for (const CallerId caller : callers) end_caller(caller);
  const auto actors = running_at(node);
  for (auto& [id, group] : groups_) {
    for (std::uint32_t bundle = 0; bundle < group.nodes.size(); ++bundle) {
      if (group.nodes[bundle] != node) continue;
      group.nodes[bundle] = {};
      group.unheld.insert(bundle);
      moved_groups_.insert(id);
    }
  }
  moved_groups_.insert(removed_groups_.begin(), removed_groups_.end());
  apply(placement_.remove_node(node));
  lose_leases_at(node);
  for (const auto& [actor, incarnation] : actors) {
    const auto making = makings_.find(actor);
    if (!was_silent && making != makings_.end() && making->second.exclusive) {
      actors_.keep_back(actor, executor_.now() + kExclusiveTime);
    }
    tell_holders(actor, incarnation, reason);
    incarnation_ended({actor, incarnation, reason});
  }
  end_recovery_if_over();
}

// Output does not wait for a write: behind a slow one more and more of it would pile up.
void Head::pass_on_output(const wire::Output& output) {
  const auto job = jobs_.find(output.job);
  if (job == jobs_.end()) return;
  if (const auto node = nodes_.find(job->second.node); node != nodes_.end()) node->second.tell(output);
}

// The holders of the actor may still reach the lost node, although the head does not.
void Head::tell_holders(ActorId actor, std::uint32_t incarnation, const std::string& reason) {
  std::set<NodeId> nodes;
  for (const CallerId holder : actors_.holders_of(actor)) {
    if (const auto place = callers_.find(holder); place != callers_.end()) nodes.insert(place->second.node);
  }
  for (const NodeId node : nodes) tell(node, wire::IncarnationEnded{actor, incarnation, reason});
}

wire::ClusterJoined Head::welcome() const {
  const auto cpus = placement_.fleet().total().cpus() / scheduler::Resources::kWhole;
  return {.cpus = static_cast<std::uint32_t>(cpus), .lasts = records_ != nullptr};
}

std::string Head::leftovers() const {
  std::string left;
  const auto count = [&left](const char* what, std::size_t n) {
    if (n != 0) left += std::string{"the head: "} + what + ": " + std::to_string(n) + '\n';
  };
  count("callers", callers_.size());
  count("jobs", jobs_.size());
  count("actors", actors_.size());
  count("requests that wait in the table", actors_.waiting());
  count("makings", makings_.size());
  count("actors that wait for resources", placement_.waiting());
  count("unplaced", unplaced_.size());
  count("last ends", last_ends_.size());
  count("running", running_.size());
  count("requests", requests_.size());
  count("early", early_.size());
  count("lease requests", lease_requests_.size());
  count("leases", leases_.size());
  count("groups", groups_.size());
  count("nodes that are to go", draining_.size());
  count("nodes that are away", away_.size());
  count("who looks for these", look_for_away_.size());
  return left;
}

std::string Head::check() const {
  std::string wrong = placement_.check();
  for (const auto& [actor, running] : running_) {
    const auto seat = placement_.seat_of(actor);
    if (!seat || seat->node != running.node) wrong += "actor " + to_string(actor) + " has no resources where it runs\n";
  }
  if (placement_.seated() != running_.size()) {
    wrong += std::to_string(placement_.seated()) + " actors have places, and " + std::to_string(running_.size()) +
             " run or start\n";
  }
  return wrong;
}

void Head::tell(NodeId node, wire::Message message) {
  outbox_.emplace_back(node, std::move(message));
}

void Head::on_message(NodeId from, wire::Message message) {
  const auto node = nodes_.find(from);
  if (node == nodes_.end()) return;  // the node was lost
  if (is_said_again(message)) {
    if (node->second.said++ == node->second.confirmed) confirm_later(from);
  }
  on_event(from, std::move(message));
  end_event();
}

void Head::on_event(NodeId from, wire::Message message) {
  if (auto* const job = std::get_if<wire::AddJob>(&message)) {
    job->node = from;
    if (records_ != nullptr && !jobs_.contains(job->job)) records_->put(job_key(job->job), *job);
    jobs_.emplace(job->job, Job{from, std::move(job->program), {from}, std::nullopt});
  } else if (auto* const report = std::get_if<wire::Report>(&message)) {
    on_report(from, std::move(*report));
  } else if (const auto* const ended_job = std::get_if<wire::EndJob>(&message)) {
    end_job(ended_job->job);
  } else if (const auto* const stop = std::get_if<wire::StopJob>(&message)) {
    stop_job(stop->job);
  } else if (const auto* const stopped = std::get_if<wire::JobStopped>(&message)) {
    job_stopped(stopped->job, from);
  } else if (const auto* const ended_caller = std::get_if<wire::EndCaller>(&message)) {
    end_caller(ended_caller->caller);
  } else if (const auto* const made = std::get_if<wire::ActorConstructed>(&message)) {
    apply(made->failure ? actors_.constructor_failed(made->actor, made->incarnation, *made->failure)
                        : actors_.incarnation_started(made->actor, made->incarnation));
  } else if (const auto* const ended = std::get_if<wire::IncarnationEnded>(&message)) {
    incarnation_ended(*ended);
  } else if (const auto* const output = std::get_if<wire::Output>(&message)) {
    pass_on_output(*output);
  } else if (const auto* const find = std::get_if<wire::FindNode>(&message)) {
    find_node(from, *find);
  } else if (const auto* const load = std::get_if<wire::NodeLoad>(&message)) {
    placement_.note_tasks(from, scheduler::Resources{load->tasks});
    if (const auto node = nodes_.find(from); node != nodes_.end()) node->second.waiting = load->waiting;
  } else if (const auto* const going = std::get_if<wire::DrainNode>(&message)) {
    const auto drains = drain(*going);
    if (!drains) return tell(from, wire::Refused{going->number, drains.error()});
    tell(from, wire::Rows{{"node"}, {{to_string(going->node)}}, 1, going->number});
  } else if (const auto* const asked = std::get_if<wire::ListRows>(&message)) {
    auto rows = list(*asked);
    if (!rows) return tell(from, wire::Refused{asked->number, rows.error()});
    rows->number = asked->number;
    tell(from, *std::move(rows));
  } else if (!on_lease_message(from, message) && !on_group_message(from, message)) {
    on_question(from, message);
  }
}

void Head::on_question(NodeId from, wire::Message& message) {
  if (const wire::Asker* const asker = asker_of(message)) note_caller(*asker, from);
  if (!put_off(from, message)) answer(from, message);
}

// A handle goes straight from process to process, so a message of its receiver may come before that of the actor's
// maker. Such a message waits a moment for the maker's.
bool Head::put_off(NodeId from, const wire::Message& message) {
  ActorId actor;
  if (const auto* const connect = std::get_if<wire::ConnectActor>(&message)) actor = connect->actor;
  if (const auto* const hold = std::get_if<wire::HoldActor>(&message)) actor = hold->actor;
  if (const auto* const kill = std::get_if<wire::KillActor>(&message)) actor = kill->actor;
  return actor && put_off_until_made(actor, from, message);
}

/// Returns false if the actor is known already, or too many messages wait.
bool Head::put_off_until_made(ActorId actor, NodeId from, const wire::Message& message) {
  if (actors_.find_spec(actor) != nullptr || early_.size() >= kEarlyMax) return false;
  auto& waiting = early_[actor];
  if (waiting.size() >= kEarlyMax) return false;
  waiting.emplace_back(from, message);
  if (waiting.size() == 1) answer_early_later(actor);
  return true;
}

// During a recovery the actor's maker may be at a node that has not come back yet, so the message waits longer.
void Head::answer_early_later(ActorId actor) {
  run_later(kEarlyTime, [this, actor] {
    if (recovering_) return answer_early_later(actor);
    answer_early(actor);
  });
}

void Head::answer_early(ActorId actor) {
  auto waiting = early_.extract(actor);
  if (waiting.empty()) return;
  for (auto& [from, message] : waiting.mapped()) answer(from, message);
}

void Head::answer(NodeId from, wire::Message& message) {
  if (auto* const start = std::get_if<wire::StartActor>(&message)) {
    start_actor(from, std::move(*start));
  } else if (const auto* const promise = std::get_if<wire::PromiseActor>(&message)) {
    promise_actor(from, *promise);
  } else if (const auto* const broken = std::get_if<wire::BreakPromise>(&message)) {
    const auto* const spec = actors_.find_spec(broken->actor);
    if (spec != nullptr && spec->job == broken->asker.job) apply(actors_.break_promise(broken->actor, broken->why));
  } else if (const auto* const connect = std::get_if<wire::ConnectActor>(&message)) {
    connect_actor(from, *connect);
  } else if (const auto* const find = std::get_if<wire::FindActor>(&message)) {
    const auto found = find_actor(*find);
    if (!found) return tell(from, wire::Refused{find->asker.number, found.error()});
    tell(from, wire::ActorFound{*found, actors_.find_spec(*found)->label, find->asker.number});
  } else if (const auto* const hold = std::get_if<wire::HoldActor>(&message)) {
    hold_actor(*hold);
  } else if (const auto* const report = std::get_if<wire::Report>(&message)) {
    restore_holds(*report);
  } else if (const auto* const inspect = std::get_if<wire::Inspect>(&message)) {
    describe_actors(from, inspect->asker);
  } else if (const auto* const kill = std::get_if<wire::KillActor>(&message)) {
    kill_actor(*kill);
  }
}

// ---- What callers ask

// A node may also ask for a caller of another node, but the caller's own node asks first. So the first one is kept.
void Head::note_caller(const wire::Asker& asker, NodeId node) {
  if (jobs_.contains(asker.job)) callers_.try_emplace(asker.caller, CallerPlace{node, asker.job});
}

scheduler::ActorRequestId Head::expect_answer(NodeId from, const wire::Asker& asker) {
  const scheduler::ActorRequestId id{++last_request_};
  requests_.emplace(id, Request{from, asker});
  return id;
}

// Refuses the question if the program has ended.
bool Head::program_goes_on(NodeId from, const wire::Asker& asker) {
  const auto job = jobs_.find(asker.job);
  if (job != jobs_.end() && !job->second.stopping) return true;
  tell(from, wire::Refused{asker.number, {ErrorCode::kRuntimeStopped, "the program has ended"}});
  return false;
}

// Restarts and ends have to be recorded too, so requests for something new are refused before the disk is full.
bool Head::has_room(NodeId from, const wire::Asker& asker) {
  if (records_ == nullptr) return true;
  const ByteCount left = records_->free_space();
  if (left >= kDiskReserve) return true;
  tell(from, wire::Refused{asker.number,
                           {ErrorCode::kExhausted,
                            "the disk of the head's state has " + to_string(left) + " left, and the last " +
                                to_string(kDiskReserve) + " are reserved for actors and jobs that exist already",
                            "Free some space on that disk; the head continues by itself."}});
  return false;
}

void Head::promise_actor(NodeId from, const wire::PromiseActor& promise) {
  if (!program_goes_on(from, promise.asker) || !has_room(from, promise.asker)) return;
  if (const auto sane = check_names(promise); !sane) {
    return tell(from, wire::Refused{promise.asker.number, sane.error()});
  }
  const bool is_new = actors_.find_spec(promise.actor) == nullptr;  // else an earlier head has promised it
  const auto promised = actors_.promise(promise.actor, spec_of(promise), promise.get_if_exists, promise.asker.caller);
  if (!promised) return tell(from, wire::Refused{promise.asker.number, promised.error()});
  if (records_ != nullptr && is_new && *promised == promise.actor) records_->put(actor_key(promise.actor), promise);
  tell(from, wire::ActorFound{*promised, actors_.find_spec(*promised)->label, promise.asker.number});
  answer_early(promise.actor);
}

void Head::start_actor(NodeId from, wire::StartActor start) {
  if (!program_goes_on(from, start.asker) || !has_room(from, start.asker)) return;
  if (const auto sane = check_names(start); !sane) {
    return tell(from, wire::Refused{start.asker.number, sane.error()});
  }
  if (const auto sane = checked(start.demand); !sane) {
    return tell(from, wire::Refused{start.asker.number, sane.error()});
  }
  if (!may_use_group(start.demand, start.asker.job)) {
    if (recovering_) return put_off_.emplace_back(from, std::move(start)), void();
    return tell(from, wire::Refused{start.asker.number, Error{ErrorCode::kNotFound, "its group was removed"}});
  }
  const scheduler::ActorSpec spec = spec_of(start);
  const ActorId actor = start.actor;
  const CallerId creator = start.asker.caller;
  const auto request = expect_answer(from, start.asker);
  const auto [making, is_new] = makings_.try_emplace(actor, std::move(start));
  if (is_new && records_ != nullptr) records_->put(actor_key(actor), making->second);
  apply(actors_.create(request, actor, spec, creator));
  moved_.insert(actor);  // if it was refused, this forgets what was kept of it
  answer_early(actor);
}

void Head::connect_actor(NodeId from, const wire::ConnectActor& connect) {
  const auto request = expect_answer(from, connect.asker);
  Running* const lost = find_running(connect.actor, connect.seen);
  if (lost == nullptr) return apply(actors_.connect(request, connect.actor));
  // Nearly always the process has died, and the head is told of that within a moment.
  lost->reconnecting.push_back(request);
  if (away_.contains(lost->node)) return;  // the request waits until the node is back or lost
  run_later(lost->node == from ? kReasonTime : kFarReasonTime,
            [this, actor = connect.actor, seen = connect.seen] { reconnect(actor, seen); });
}

void Head::reconnect(ActorId actor, std::uint32_t incarnation) {
  Running* const running = find_running(actor, incarnation);
  if (running == nullptr || away_.contains(running->node)) return;
  for (const auto request : std::exchange(running->reconnecting, {})) {
    if (requests_.contains(request)) apply(actors_.connect(request, actor));
  }
}

/// Knows also nodes that have not come back yet.
const std::string& Head::address_of(NodeId node) const {
  const auto awaited = expected_.find(node);
  return awaited != expected_.end() ? awaited->second.address : nodes_.at(node).address;
}

void Head::find_node(NodeId from, const wire::FindNode& find) {
  if (!knows(find.node) && !expects(find.node)) {
    return tell(
        from, wire::Refused{find.number, Error{ErrorCode::kNotFound, "the node is not part of this cluster any more"}});
  }
  if (away_.contains(find.node) && look_for_away_.size() < kEarlyMax) {
    return static_cast<void>(look_for_away_.emplace(find.node, std::pair{from, find}));
  }
  tell(from, wire::NodeFound{find.number, address_of(find.node)});
}

void Head::answer_who_looks_for(NodeId node) {
  const auto [first, last] = look_for_away_.equal_range(node);
  std::vector<std::pair<NodeId, wire::FindNode>> waiting;
  for (auto each = first; each != last; ++each) waiting.push_back(each->second);
  look_for_away_.erase(first, last);
  for (const auto& [from, find] : waiting) find_node(from, find);
}

void Head::node_is_back(NodeId node) {
  if (away_.erase(node) == 0) return;
  answer_who_looks_for(node);
  for (const auto& [actor, incarnation] : running_at(node)) reconnect(actor, incarnation);
  end_event();
}

// Calls name functions by numbers that hold within one build only, so the caller has to be of the actor's build.
Result<ActorId> Head::find_actor(const wire::FindActor& find) {
  PHAROS_TRY(const ActorId found, actors_.find(find.name_space, find.name, find.type, find.asker.caller));
  const auto asking = jobs_.find(find.asker.job);
  const auto its = jobs_.find(actors_.find_spec(found)->job);
  if (asking == jobs_.end() || its == jobs_.end() || asking->second.program.build_id == its->second.program.build_id) {
    return found;
  }
  apply(actors_.hold(found, find.asker.caller, -1));
  return Error{ErrorCode::kFailedPrecondition,
               "actor \"" + find.name + "\" belongs to another build of the program, which runs from " +
                   its->second.program.executable,
               "Stop the actor and start it from this build, or call it from a program of its own build."};
}

void Head::kill_actor(const wire::KillActor& kill) {
  const auto* const spec = actors_.find_spec(kill.actor);
  if (spec == nullptr) return;
  if (spec->job != kill.asker.job && !spec->detached) {
    // The asker does not wait for an answer, so the refusal goes to the log.
    log(LogLevel::kWarn, "a program tried to end an actor of another program; the actor goes on",
        {kv("actor", spec->label), kv("program", kill.asker.job), kv("its_program", spec->job)});
    return;
  }
  if (!kill.gently) return apply(actors_.kill(kill.actor, "its program ended it"));
  apply(actors_.stop(kill.actor, kill.why.empty() ? "was told to stop" : kill.why,
                     std::chrono::milliseconds{kill.grace_ms}));
}

void Head::hold_actor(const wire::HoldActor& hold) {
  const auto count = [this, hold] { apply(actors_.hold(hold.actor, hold.asker.caller, hold.count)); };
  if (hold.count >= 0) return count();
  // A handle may be passed on and then released before the message of its new holder has come.
  run_later(kLetGoTime, count);
}

void Head::end_caller(CallerId caller) {
  std::erase_if(requests_, [&](const auto& entry) {
    if (entry.second.asker.caller != caller) return false;
    actors_.drop_request(entry.first);
    return true;
  });
  callers_.erase(caller);
  end_leases_of(caller);
  std::vector<GroupId> groups;
  for (const auto& [id, group] : groups_) {
    if (group.asker.caller == caller) groups.push_back(id);
  }
  for (const GroupId group : groups) remove_group(group);
  apply(actors_.caller_ended(caller));
}

// ---- The life of actors

void Head::note_running(ActorId actor, Running running) {
  running_at_[running.node].insert(actor);
  running_.insert_or_assign(actor, std::move(running));
}

std::vector<std::pair<ActorId, std::uint32_t>> Head::running_at(NodeId node) const {
  std::vector<std::pair<ActorId, std::uint32_t>> all;
  const auto found = running_at_.find(node);
  if (found == running_at_.end()) return all;
  for (const ActorId actor : found->second) all.emplace_back(actor, running_.at(actor).incarnation);
  std::sort(all.begin(), all.end());
  return all;
}

const Head::Running* Head::find_running(ActorId actor, std::uint32_t incarnation) const {
  const auto found = running_.find(actor);
  return found == running_.end() || found->second.incarnation != incarnation ? nullptr : &found->second;
}

Head::Running* Head::find_running(ActorId actor, std::uint32_t incarnation) {
  return const_cast<Running*>(std::as_const(*this).find_running(actor, incarnation));
}

void Head::apply(const scheduler::ActorEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const start = std::get_if<scheduler::StartIncarnation>(&effect)) {
      place(start->actor, start->incarnation);
    } else if (const auto* const end = std::get_if<scheduler::EndIncarnation>(&effect)) {
      end_incarnation(*end);
    } else if (const auto* const ready = std::get_if<scheduler::ActorReady>(&effect)) {
      const auto asked = requests_.extract(ready->request);
      const Running* const running = find_running(ready->actor, ready->incarnation);
      if (asked.empty()) continue;
      const auto last_end = last_ends_.find(ready->actor);
      PHAROS_CHECK(running != nullptr, ready->actor);  // the table hears of its end in the same step
      tell(asked.mapped().node,
           wire::ActorAlive{asked.mapped().asker.number, ready->actor, ready->incarnation, running->node,
                            makings_.at(ready->actor).max_task_retries,
                            last_end == last_ends_.end() ? "" : last_end->second.reason, address_of(running->node),
                            last_end != last_ends_.end() && last_end->second.out_of_memory});
    } else if (const auto* const refused = std::get_if<scheduler::ActorRefused>(&effect)) {
      const auto asked = requests_.extract(refused->request);
      if (!asked.empty()) tell(asked.mapped().node, wire::Refused{asked.mapped().asker.number, refused->why});
    }
  }
  if (const auto next = actors_.next_tick()) tick_actors_at(*next);
}

void Head::place(ActorId actor, std::uint32_t incarnation) {
  const wire::StartActor& making = makings_.at(actor);
  if (jobs_.at(making.asker.job).stopping) return;
  unplaced_.insert_or_assign(actor, incarnation);
  if (const auto& demand = making.demand; demand.group) {
    const auto bundle = demand.bundle < 0 ? std::nullopt : std::optional{static_cast<std::uint32_t>(demand.bundle)};
    return apply(
        placement_.place_in_group(actor, making.label, scheduler::Resources{demand.amounts}, demand.group, bundle));
  }
  apply(placement_.place(actor, making.label, demand_of(making.demand),
                         preference_of(making.demand, jobs_.at(making.asker.job).node)));
}

void Head::apply(const scheduler::PlacementEffects& effects) {
  for (const auto& effect : effects) {
    if (const auto* const placed = std::get_if<scheduler::Placed>(&effect)) {
      apply(*placed);
    } else if (const auto* const unplaceable = std::get_if<scheduler::Unplaceable>(&effect)) {
      const std::uint32_t incarnation = unplaced_.at(unplaceable->actor);
      if (recovering_) {
        unplaceable_yet_.push_back(unplaceable->actor);
        continue;
      }
      apply(actors_.constructor_failed(unplaceable->actor, incarnation, unplaceable->why));
    } else if (const auto* const group = std::get_if<scheduler::GroupPlaced>(&effect)) {
      apply(*group);
    } else if (const auto* const freed = std::get_if<scheduler::BundleFreed>(&effect)) {
      moved_groups_.insert(freed->group);
      tell(freed->node, wire::ReleaseBundle{freed->group, freed->index});
    } else {
      const auto& refused = std::get<scheduler::GroupUnplaceable>(effect);
      const Group forgotten = groups_.extract(refused.group).mapped();
      moved_groups_.insert(refused.group);
      tell(forgotten.asked_from, wire::Refused{forgotten.asker.number, refused.why});
    }
  }
}

void Head::apply(const scheduler::Placed& placed) {
  const wire::StartActor& making = makings_.at(placed.actor);
  const std::uint32_t incarnation = unplaced_.extract(placed.actor).mapped();
  if (jobs_.at(making.asker.job).stopping) return apply(placement_.give_back(placed.actor));
  // A node that is not back yet gets only actors of groups, in bundles that it has already. It is told when it is back.
  const bool is_back = !expected_.contains(placed.node) && !reporting_.contains(placed.node);
  note_running(placed.actor, Running{incarnation, placed.node, {}, !is_back});
  moved_.insert(placed.actor);
  if (is_back) start_incarnation(placed.actor);
}

void Head::start_incarnation(ActorId actor) {
  const wire::StartActor& making = makings_.at(actor);
  const auto seat = placement_.seat_of(actor);
  PHAROS_CHECK(seat, actor);
  wire::StartIncarnation start{.actor = actor,
                               .incarnation = running_.at(actor).incarnation,
                               .job = making.asker.job,
                               .label = making.label,
                               .constructor = making.constructor,
                               .arguments = making.arguments,
                               .in_pieces = making.in_pieces,
                               .name_space = making.name_space,
                               .amounts = seat->allotment->amounts.amounts(),
                               .gpus = to_wire(seat->allotment->gpus),
                               .trace = making.trace,
                               .group = seat->group,
                               .bundle = seat->bundle,
                               .exclusive = making.exclusive,
                               .may_restart = actors_.may_restart(actor)};
  show_job(seat->node, making.asker.job);
  tell(seat->node, std::move(start));
}

void Head::end_incarnation(const scheduler::EndIncarnation& end) {
  if (const Running* const running = find_running(end.actor, end.incarnation)) {
    const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(end.grace).count();
    return tell(running->node, wire::EndIncarnation{end.actor, end.incarnation, end.kill,
                                                    static_cast<std::uint32_t>(grace), end.moves});
  }
  const auto unplaced = unplaced_.find(end.actor);
  if (unplaced == unplaced_.end() || unplaced->second != end.incarnation) return;
  unplaced_.erase(unplaced);
  apply(placement_.give_back(end.actor));
  apply(actors_.incarnation_ended(end.actor, end.incarnation, "it waited for resources", executor_.now()));
}

void Head::incarnation_ended(const wire::IncarnationEnded& end) {
  const auto& [actor, incarnation, reason, out_of_memory] = end;
  if (find_running(actor, incarnation) == nullptr) return;
  const Running ended = std::move(running_.extract(actor).mapped());
  const auto at_node = running_at_.find(ended.node);
  at_node->second.erase(actor);
  if (at_node->second.empty()) running_at_.erase(at_node);
  moved_.insert(actor);
  apply(placement_.give_back(actor));
  last_ends_[actor] = end;
  apply(actors_.incarnation_ended(actor, incarnation, reason, executor_.now(), out_of_memory));
  for (const auto request : ended.reconnecting) {
    if (requests_.contains(request)) apply(actors_.connect(request, actor));
  }
}

void Head::forget_if_over(ActorId actor) {
  if (actors_.lives(actor)) return;
  // The actor is over, so it must not wait for resources any longer.
  if (const auto unplaced = unplaced_.find(actor); unplaced != unplaced_.end()) {
    return end_incarnation({actor, unplaced->second, true});
  }
  makings_.erase(actor);
  last_ends_.erase(actor);
  const auto* const spec = actors_.find_spec(actor);
  const auto job = spec == nullptr ? jobs_.end() : jobs_.find(spec->job);
  if (job != jobs_.end() && !job->second.node) maybe_over_.insert(job->first);
}

void Head::tick_actors_at(TimePoint when) {
  if (when >= next_tick_) return;
  next_tick_ = when;
  run_later(when - executor_.now(), [this, when] {
    if (next_tick_ == when) next_tick_ = TimePoint::max();
    apply(actors_.tick(executor_.now()));
  });
}

}  // namespace pharos::node
