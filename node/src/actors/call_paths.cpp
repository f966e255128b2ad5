#include "actors/call_paths.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/async/sleep.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

using Served = HandOverLine::Served;

constexpr auto kAskAgainTime = 200ms;
constexpr auto kHeadWaits = 3s;       // a head that answers later than this has waited for a node that was away
constexpr auto kReachPatience = 15s;  // to reach an actor: longer than it takes to find that its node is lost

Error has_just_ended() {
  return {ErrorCode::kUnavailable, "its process has just ended"};
}

}  // namespace

void CallPaths::on_alive(const wire::ActorAlive& alive) {
  Asked* const asked = questions_.find(alive.number);
  if (asked == nullptr || asked->reaching) return;
  // The head has not answered at once, so it has waited for that node, which has all its time again.
  if (site_.executor.now() - asked->asked_at >= kHeadWaits) asked->asked_again.reset();
  if (const auto worker = workers_.find(alive.actor, alive.incarnation);
      worker != nullptr && !worker->process.has_crashed()) {
    return hand_over(worker->id, alive, *questions_.take(alive.number));
  }
  if (alive.node != site_.settings.id) {
    asked->reaching = true;
    return site_.background.spawn(reach(alive));
  }
  // The process has just ended, and the head is about to hear of it; after a crash, once it is known where it crashed.
  ask_again(alive, has_just_ended());
}

void CallPaths::hand_over(WorkerId worker, const wire::ActorAlive& alive, Asked asked) {
  const Client client = asked.client;
  const std::uint64_t request = *asked.request;
  const bool may = hand_overs_.add(
      worker, [this, alive, asked = std::move(asked)](const std::shared_ptr<Worker>& there) -> std::optional<Served> {
        if (!clients_.contains(*asked.client.peer)) return std::nullopt;
        if (there != nullptr) return connect(site_.host, *there, asked.client, *asked.request, alive, {});
        questions_.put_back(alive.number, asked);
        ask_again(alive, has_just_ended());
        return std::nullopt;
      });
  if (may) return;
  client.peer->respond(request, Error{ErrorCode::kUnavailable,
                                      "too many callers wait for connections to processes of this node", "Try again."});
}

async::Async<void> CallPaths::reach(wire::ActorAlive alive) {
  const Asked* const found = questions_.find(alive.number);
  if (found == nullptr) co_return;
  const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                  .incarnation = alive.incarnation,
                                  .caller = found->client.caller.value(),
                                  .actor = alive.actor.value()};
  auto socket = co_await far_nodes_.connect(alive.node, alive.address, introduction);
  if (!socket) {
    // The actor's node is being lost, or is in trouble for a moment. The head will know, so it is asked again.
    const auto slept = co_await async::sleep(kAskAgainTime);
    if (slept) ask_again(alive, socket.error());
    co_return;
  }
  const auto asked = questions_.take(alive.number);
  if (!asked) co_return;
  std::vector<Fd> descriptors;
  descriptors.push_back(*std::move(socket));
  asked->client.peer->respond(*asked->request,
                              wire::WorkerReady{.worker = WorkerId{},
                                                .actor = alive.actor,
                                                .incarnation = alive.incarnation,
                                                .max_task_retries = alive.max_task_retries,
                                                .remote = true,
                                                .ended = alive.ended,
                                                .out_of_memory = alive.out_of_memory},
                              std::move(descriptors));
}

void CallPaths::ask_again(const wire::ActorAlive& alive, const Error& why) {
  Asked* const asked = questions_.find(alive.number);
  if (asked == nullptr) return;
  asked->reaching = false;
  const TimePoint now = site_.executor.now();
  if (!asked->asked_again) asked->asked_again = now;
  if (now - *asked->asked_again >= kReachPatience) {
    return questions_.refuse(*questions_.take(alive.number), why);
  }
  const Client& client = asked->client;
  const wire::ConnectActor question{alive.actor, alive.incarnation, {client.job->id, client.caller, alive.number}};
  asked->question = question;
  asked->asked_at = now;
  site_.head.tell(question);
}

// A worker that is not here has just ended. The caller sees its connection end, and asks again.
void CallPaths::serve_far(const Introduction& introduction, Fd socket) {
  const CallerId caller{introduction.caller};
  const ActorId actor{introduction.actor};
  const auto worker =
      actor ? workers_.find(actor, introduction.incarnation) : workers_.find(WorkerId{introduction.worker});
  if (worker == nullptr) return;
  hand_overs_.add(worker->id,
                  [actor, caller,
                   socket = std::move(socket)](const std::shared_ptr<Worker>& there) mutable -> std::optional<Served> {
                    if (there == nullptr || (!actor && there->leased_to.far_user != caller)) return std::nullopt;
                    const Incarnation& runs = there->incarnation;
                    return Served{{caller, runs.actor, runs.number, true, there->leased_to.holding}, std::move(socket)};
                  });
}

}  // namespace pharos::node
