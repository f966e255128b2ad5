#include "node/questions.hpp"

#include <algorithm>
#include <utility>

#include <pharos/base/check.hpp>

#include "node/demands.hpp"

namespace pharos::node {

void Questions::pass_on(const Client& client, wire::Message message, std::optional<std::uint64_t> request) {
  wire::Asker* const asker = asker_of(message);
  PHAROS_CHECK(asker != nullptr);
  *asker = {client.job->id, client.caller, head_.next_number()};
  holds_.note_asked(client.caller, message);
  forget_undone(message);
  if (request || std::holds_alternative<wire::PromiseActor>(message)) {
    Asked asked{.client = client, .request = request, .question = message};
    // Another head learns of the hold from this node's report, so it is only asked whether it has counted it.
    if (auto* const hold = std::get_if<wire::HoldActor>(&asked.question)) hold->count = 0;
    asked_.emplace(asker->number, std::move(asked));
  }
  head_.tell(std::move(message));
}

void Questions::ask(std::uint64_t number, Asked asked) {
  wire::Message question = asked.question;
  asked_.emplace(number, std::move(asked));
  head_.tell(std::move(question));
}

Asked* Questions::find(std::uint64_t number) {
  const auto found = asked_.find(number);
  return found == asked_.end() ? nullptr : &found->second;
}

std::optional<Asked> Questions::take(std::uint64_t number) {
  auto taken = asked_.extract(number);
  return taken.empty() ? std::nullopt : std::optional{std::move(taken.mapped())};
}

void Questions::forget_if(const std::function<bool(const Client&)>& of) {
  std::erase_if(asked_, [&](const auto& entry) {
    if (!of(entry.second.client)) return false;
    forgotten_(entry.second);
    return true;
  });
}

// A message that takes a question back: the question must not be asked again.
void Questions::forget_undone(const wire::Message& message) {
  const auto* const broken = std::get_if<wire::BreakPromise>(&message);
  const auto* const removed = std::get_if<wire::RemoveGroup>(&message);
  if (broken == nullptr && removed == nullptr) return;
  const auto undone = std::find_if(asked_.begin(), asked_.end(), [&](const auto& entry) {
    const auto* const promise = std::get_if<wire::PromiseActor>(&entry.second.question);
    const auto* const place = std::get_if<wire::PlaceGroup>(&entry.second.question);
    return (broken != nullptr && promise != nullptr && promise->actor == broken->actor) ||
           (removed != nullptr && place != nullptr && place->group == removed->group);
  });
  if (undone == asked_.end()) return;
  const Asked forgotten = std::move(asked_.extract(undone).mapped());
  refuse(forgotten, Error{ErrorCode::kCancelled, removed != nullptr ? "the group was removed"
                                                                    : "the actor was given up before it was created"});
}

void Questions::ask_again() const {
  for (const auto& [number, asked] : asked_) {
    if (!asked.reaching) head_.tell(asked.question);
  }
}

void Questions::on_found(const wire::ActorFound& found) {
  const auto asked = take(found.number);
  if (!asked) return;
  holds_.note_answered(asked->client.caller, asked->question, found.actor);
  answer(*asked, found);
}

void Questions::on_answer(std::uint64_t number, const wire::Message& message) {
  if (const auto asked = take(number)) answer(*asked, message);
}

void Questions::on_refused(const Asked& asked, const Error& why) {
  holds_.note_answered(asked.client.caller, asked.question, {});
  refuse(asked, why);
}

void Questions::answer(const Asked& asked, const wire::Message& message) {
  if (asked.request) asked.client.peer->respond(*asked.request, message);
}

void Questions::refuse(const Asked& asked, Error why) const {
  if (!asked.request) return;
  if (asked.client.peer != nullptr) {
    asked.client.peer->respond(*asked.request, std::move(why));
  } else {
    head_.tell(wire::Refused{*asked.request, std::move(why)});
  }
}

ActorId actor_made_by(const wire::Message& question) {
  if (const auto* const start = std::get_if<wire::StartActor>(&question)) return start->actor;
  if (const auto* const promise = std::get_if<wire::PromiseActor>(&question)) return promise->actor;
  return {};
}

}  // namespace pharos::node
