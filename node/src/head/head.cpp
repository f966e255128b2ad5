#include "head/head.hpp"

#include <concepts>
#include <set>
#include <unordered_set>
#include <utility>
#include <variant>

#include <pharos/base/log.hpp>
#include <pharos/base/overloaded.hpp>
#include <pharos/base/random.hpp>

#include "head/head_keys.hpp"
#include "link/said_again.hpp"

namespace pharos::node {
namespace {

template <class Message, class... Others>
concept OneOf = (std::same_as<Message, Others> || ...);

/// The messages that a node never sends to its head. Each control message is in this list, or Head::handle() gives it
/// to a part of the head; without one of the two the code does not compile.
template <class Message>
concept NotForTheHead =
    OneOf<Message, wire::Failure, wire::RegisterJob, wire::JobRegistered, wire::WorkerReady, wire::Stop, wire::Done,
          wire::ZygoteReady, wire::ForkWorker, wire::WorkerForked, wire::WorkerReaped, wire::ServeCaller,
          wire::EndWorker, wire::WorkerBlocked, wire::ActorFound, wire::ActorHeld, wire::ConstructActor,
          wire::StartIncarnation, wire::EndIncarnation, wire::ActorAlive, wire::WorkerCrashed, wire::Inspected,
          wire::JoinCluster, wire::ClusterJoined, wire::OpenStore, wire::StoreOpened, wire::LeaseSlab, wire::SlabLeased,
          wire::ReturnSlab, wire::TrimStore, wire::BringObject, wire::ImportObject, wire::ObjectImported,
          wire::ClaimObject, wire::ObjectClaimed, wire::ReleaseObject, wire::NodeFound, wire::GroupReady,
          wire::HoldBundle, wire::ReleaseBundle, wire::Rows, wire::Beat, wire::Confirmed, wire::ActorLife,
          wire::GroupPlaces, wire::EndNode, wire::ReadLog, wire::LogPart, wire::Explain, wire::Explained,
          wire::ReadStacks, wire::Stacks, wire::NodesListed, wire::ValueRead, wire::ValueWritten, wire::KeysListed,
          wire::StoredValue, wire::WriteOutcome, wire::TakeObject, wire::ObjectMoved>;

}  // namespace

Head::Head(async::Executor& executor, NodeId own, Records* records)
    : events_{executor, records, [this] { complete_event(); }},
      numbers_{records == nullptr ? 0 : random_u64()},
      placement_{fleet_},
      nodes_{events_, recovery_, own},
      jobs_{events_},
      callers_{jobs_},
      groups_{events_, placement_, recovery_, *this},
      leases_{events_, fleet_, jobs_, nodes_, groups_, recovery_, numbers_},
      places_{events_,
              actors_,
              placement_,
              jobs_,
              recovery_,
              *this,
              [this](ActorId actor) { connections_.connect_again(actor); }},
      actor_records_{events_, actors_, placement_, jobs_, recovery_, places_},
      connections_{events_, actors_, nodes_, places_, numbers_, *this},
      maker_{events_, actors_, groups_, recovery_, places_, connections_, *this},
      handles_{events_, actors_, jobs_, *this},
      early_{events_, actors_, recovery_},
      drains_{events_, placement_, nodes_, recovery_, places_, *this},
      values_{events_},
      listing_{nodes_, jobs_, groups_, actors_, places_, placement_} {}

// ---- Nodes

void Head::add_node(NodeId node, const NodeDescription& description, Tell tell) {
  nodes_.add(node, description.address, std::move(tell));
  events_.put(node_key(node),
              wire::JoinCluster{node, description.address, description.total.amounts(), description.labels});
  scheduler::PlacementEffects effects;
  // A node that offers no resources exists for its driver alone.
  if (!description.total.empty()) effects = placement_.add_node(node, description.total, description.labels);
  events_.tell(node, welcome());
  apply(effects);
  try_again_with_new_node();
  end_recovery_if_over();
  events_.end();
}

/// Tries what no node could meet before.
void Head::try_again_with_new_node() {
  places_.place_wanting();
  leases_.request_wanting();
}

wire::ClusterJoined Head::welcome() const {
  const auto cpus = fleet_.total().cpus() / scheduler::Resources::kWhole;
  return {.cpus = static_cast<std::uint32_t>(cpus), .lasts = events_.has_records()};
}

void Head::remove_node(NodeId node, bool was_silent) {
  const auto address = nodes_.remove(node);
  if (recovery_.drop_report(node)) {  // it had not reported everything, and may try again
    recovery_.expect(node, address.value(), events_.now() + kReturnTime);
    nodes_.end_silence(node);
    events_.run_later(kReturnTime, [this] { give_up_the_overdue(); });
  } else if (address) {
    if (drains_.contains(node)) {
      log(LogLevel::kInfo, "a node has gone, as it was told to", {kv("node", node)});
    } else if (fleet_.find(node) != nullptr) {
      log(LogLevel::kWarn, "a node is lost", {kv("node", node), kv("address", *address)});
    }
    lose_node(node, "its node, at " + *address + ", was lost", was_silent);
  } else if (const auto awaited = recovery_.give_up(node)) {
    lose_node(node, "its node, at " + *awaited + ", did not come back to the head", true);
  }
  events_.end();
}

void Head::lose_node(NodeId node, const std::string& reason, bool was_silent) {
  drains_.end(node);
  nodes_.end_silence(node);
  events_.erase(node_key(node));
  for (const JobId job : jobs_.lose_node(node)) end_job(job);
  jobs_.note_stopped_all(node);
  for (const CallerId caller : callers_.at(node)) end_caller(caller);
  const auto lost = places_.running().at(node);
  groups_.lose_node(node);
  apply(placement_.remove_node(node));
  leases_.lose_node(node);
  for (const auto& [actor, incarnation] : lost) {
    if (!was_silent) places_.keep_back_if_exclusive(actor);
    tell_holders(actor, incarnation, reason);
    places_.note_ended({actor, incarnation, reason});
  }
  end_recovery_if_over();
}

// The holders of the actor may still reach the lost node, although the head does not.
void Head::tell_holders(ActorId actor, std::uint32_t incarnation, const std::string& reason) {
  std::set<NodeId> nodes;
  for (const CallerId holder : actors_.holders_of(actor)) {
    if (const NodeId node = callers_.node_of(holder)) nodes.insert(node);
  }
  for (const NodeId node : nodes) events_.tell(node, wire::IncarnationEnded{actor, incarnation, reason});
}

void Head::node_is_back(NodeId node) {
  if (!nodes_.end_silence(node)) return;
  connections_.connect_again_at(node);
  events_.end();
}

// ---- Messages

void Head::on_message(NodeId from, wire::Message message) {
  if (!knows(from)) return;  // the node was lost
  if (is_said_again(message)) nodes_.note_said(from);
  handle(from, std::move(message));
  events_.end();
}

// A node asks for its own callers. But it may look for room for the caller of another node, or remove the group of one.
void Head::note_caller(NodeId from, const wire::Message& any) {
  std::visit(Overloaded{
                 [&](const wire::LeaseWorker& lease) {
                   if (!lease.only_now) callers_.note(lease.asker, from);
                 },
                 [](const wire::RemoveGroup&) {},
                 [&](const auto& message) {
                   if constexpr (requires { message.asker; }) callers_.note(message.asker, from);
                 },
             },
             any);
}

void Head::handle(NodeId from, wire::Message any) {
  note_caller(from, any);
  std::visit(
      Overloaded{
          [&](wire::AddJob& job) { jobs_.add(from, std::move(job)); },
          [&](const wire::StopJob& stop) { jobs_.stop(stop.job, actors_.has_detached(stop.job)); },
          [&](const wire::JobStopped& stopped) { jobs_.note_stopped(stopped.job, from); },
          [&](const wire::EndJob& ended) { end_job(ended.job); },
          [&](const wire::EndCaller& ended) { end_caller(ended.caller); },
          [&](const wire::Output& output) { jobs_.pass_on(output); },
          [&](wire::Report& report) { take_report(from, std::move(report)); },

          [&](const wire::PromiseActor& promise) { promise_actor(from, promise); },
          [&](wire::StartActor& start) { start_actor(from, std::move(start)); },
          [&](const wire::BreakPromise& broken) { maker_.break_promise(broken); },
          [&](const wire::ActorConstructed& made) { note_constructed(made); },
          [&](const wire::IncarnationEnded& ended) { places_.note_ended(ended); },
          [&](const wire::ConnectActor& it) { early_.ask(it.actor, [=, this] { connections_.connect(from, it); }); },
          [&](const wire::HoldActor& it) { early_.ask(it.actor, [=, this] { handles_.hold_for(from, it); }); },
          [&](const wire::KillActor& it) { early_.ask(it.actor, [=, this] { handles_.kill(it); }); },
          [&](const wire::FindActor& find) { handles_.find_for(from, find); },

          [&](wire::PlaceGroup& place) { place_group(from, std::move(place)); },
          [&](const wire::RemoveGroup& remove) {
            groups_.remove(from, remove);
            leases_.request_wanting();
          },
          [&](const wire::BundleHeld& held) {
            groups_.note_held(from, held);
            leases_.request_wanting();
          },

          [&](const wire::LeaseWorker& lease) { leases_.request(from, lease); },
          [&](const wire::LeaseGranted& granted) { leases_.grant(from, granted); },
          [&](wire::Refused& refused) { leases_.refuse(std::move(refused)); },
          [&](const wire::ReturnLease& returned) { leases_.take_back(returned); },
          [&](const wire::WorkerEnded& ended) { leases_.note_worker_ended(ended); },
          [&](const wire::RecallLeases& recalled) { leases_.recall(recalled); },

          [&](const wire::FindNode& find) { nodes_.find_for(from, find); },
          [&](wire::NodeLoad& load) { note_load(from, std::move(load)); },
          [&](const wire::DrainNode& drain) { drains_.begin_for(from, drain); },
          [&](const wire::NodeEmpty&) { drains_.note_empty(from); },
          [&](wire::RotateToken& rotate) { nodes_.rotate_token(from, std::move(rotate)); },
          [&](const wire::ListRows& asked) { list_for(from, asked); },
          [&](const wire::ReadValue& asked) { values_.read(from, asked); },
          [&](const wire::WriteValue& asked) { write_value(from, asked); },
          [&](const wire::ListKeys& asked) { values_.list(from, asked); },
          [&](const wire::ListNodes& asked) { events_.tell(from, listing_.list_nodes(asked)); },
          [&](const wire::Inspect& inspect) { events_.tell(from, listing_.inspect(from, inspect.asker)); },

          [&](const NotForTheHead auto&) {
            log(LogLevel::kWarn, "a node has sent a message that is not for the head; the message is ignored",
                {kv("node", from), kv("message", wire::name_of(any))});
          },
      },
      any);
}

/// Refuses a question for something new if the program has ended or the disk is nearly full.
bool Head::admits(NodeId from, const wire::Asker& asker) {
  return jobs_.admit(from, asker) && events_.has_room(from, asker);
}

void Head::promise_actor(NodeId from, const wire::PromiseActor& promise) {
  if (admits(from, promise.asker) && maker_.promise(from, promise, jobs_)) early_.answer(promise.actor);
}

void Head::start_actor(NodeId from, wire::StartActor start) {
  const ActorId actor = start.actor;
  if (admits(from, start.asker) && maker_.start(from, std::move(start))) early_.answer(actor);
}

void Head::note_constructed(const wire::ActorConstructed& made) {
  apply(made.failure ? actors_.constructor_failed(made.actor, made.incarnation, *made.failure)
                     : actors_.incarnation_started(made.actor, made.incarnation));
}

void Head::place_group(NodeId from, wire::PlaceGroup place) {
  if (admits(from, place.asker)) groups_.place(from, std::move(place));
}

void Head::write_value(NodeId from, const wire::WriteValue& asked) {
  if (admits(from, asked.asker)) values_.write(from, asked);
}

void Head::note_load(NodeId from, wire::NodeLoad load) {
  leases_.note_tasks(from, load.tasks);
  nodes_.note_waiting(from, std::move(load.waiting));
}

void Head::list_for(NodeId from, const wire::ListRows& asked) {
  auto rows = listing_.list(asked);
  if (!rows) return events_.tell(from, wire::Refused{asked.number, std::move(rows).error()});
  rows->number = asked.number;
  events_.tell(from, *std::move(rows));
}

// ---- Effects

void Head::apply(const scheduler::ActorEffects& effects) {
  for (const auto& effect : effects) {
    std::visit(Overloaded{
                   [&](const scheduler::StartIncarnation& start) { places_.place(start); },
                   [&](const scheduler::EndIncarnation& end) { places_.end(end); },
                   [&](const scheduler::ActorReady& ready) { connections_.answer(ready); },
                   [&](const scheduler::ActorRefused& refused) { connections_.refuse(refused); },
               },
               effect);
  }
  places_.wait_for_restarts();
}

void Head::apply(const scheduler::PlacementEffects& effects) {
  for (const auto& effect : effects) {
    std::visit(Overloaded{
                   [&](const scheduler::Placed& placed) { places_.note_placed(placed); },
                   [&](const scheduler::Unplaceable& unplaceable) { places_.refuse(unplaceable); },
                   [&](const scheduler::GroupPlaced& placed) { groups_.note_placed(placed); },
                   [&](const scheduler::GroupUnplaceable& unplaceable) { groups_.refuse(unplaceable); },
                   [&](const scheduler::BundleFreed& freed) { groups_.release(freed); },
               },
               effect);
  }
}

// ---- Ends

// Forgetting an actor may end more actors and jobs, so this repeats until nothing changes.
void Head::complete_event() {
  std::unordered_set<ActorId> changed;
  const auto take_more = [this] {
    auto more = actors_.take_changed();
    more.merge(places_.take_changed());
    return more;
  };
  for (auto more = take_more(); !more.empty() || jobs_.has_maybe_over(); more = take_more()) {
    for (const ActorId actor : more) places_.forget_if_over(actor);
    end_jobs_without_driver();
    changed.merge(more);
  }
  for (const ActorId actor : changed) actor_records_.write(actor);
  groups_.write_changes();
}

void Head::end_jobs_without_driver() {
  for (const JobId id : jobs_.take_maybe_over()) {
    const auto* const job = jobs_.find(id);
    const bool has_driver = job == nullptr || job->node;
    if (!has_driver && !recovery_.is_under_way() && !actors_.has_detached(id)) end_job(id);
  }
}

/// The driver has ended, or the last of the actors that outlived the driver.
void Head::end_job(JobId job) {
  if (jobs_.contains(job) && actors_.has_detached(job)) return jobs_.leave_driver(job);
  if (!jobs_.end(job)) return;
  leases_.end_job(job);
  callers_.remove_job(job);
  groups_.end_job(job);
  connections_.end_job(job);
  apply(actors_.job_ended(job));
  places_.forget_job(job);
}

void Head::end_caller(CallerId caller) {
  connections_.end_caller(caller);
  callers_.remove(caller);
  leases_.end_caller(caller);
  groups_.end_caller(caller);
  apply(actors_.caller_ended(caller));
}

// ---- For tests

std::string Head::leftovers() const {
  std::string left;
  const auto count = [&left](const char* what, std::size_t n) {
    if (n != 0) left += std::string{"the head: "} + what + ": " + std::to_string(n) + '\n';
  };
  count("callers", callers_.size());
  count("jobs", jobs_.all().size());
  count("actors", actors_.size());
  count("requests that wait in the table", actors_.waiting());
  count("makings", places_.makings().size());
  count("actors that wait for resources", placement_.waiting());
  count("unplaced", places_.unplaced().size());
  count("last ends", places_.last_ends());
  count("running", places_.running().all().size());
  count("requests", connections_.size());
  count("early", early_.size());
  count("lease requests", leases_.requested());
  count("leases", leases_.granted());
  count("groups", groups_.all().size());
  count("nodes that are to go", drains_.all().size());
  count("nodes that are away", nodes_.silent());
  count("who looks for these", nodes_.asks());
  return left;
}

std::string Head::check() const {
  std::string wrong = placement_.check();
  const auto& running = places_.running().all();
  for (const auto& [actor, each] : running) {
    const auto seat = placement_.seat_of(actor);
    if (!seat || seat->node != each.node) wrong += "actor " + to_string(actor) + " has no resources where it runs\n";
  }
  if (placement_.seated() != running.size()) {
    wrong += std::to_string(placement_.seated()) + " actors have places, and " + std::to_string(running.size()) +
             " run or start\n";
  }
  return wrong;
}

std::optional<std::map<std::string, std::optional<wire::Message>>> Head::recorded() const {
  if (recovery_.is_under_way()) return std::nullopt;
  std::map<std::string, std::optional<wire::Message>> all;
  for (const auto& [id, node] : nodes_.all()) all.emplace(node_key(id), std::nullopt);
  for (const auto& [id, limit] : drains_.all()) all.emplace(drain_key(id), std::nullopt);
  for (const auto& [number, rotated] : nodes_.rotations().all()) all.emplace(rotation_key(number), rotated);
  for (const auto& [id, job] : jobs_.all()) all.emplace(job_key(id), wire::AddJob{id, job.program, job.node, {}});
  actor_records_.add_records(all);
  groups_.add_records(all);
  values_.add_records(all);
  return all;
}

}  // namespace pharos::node
