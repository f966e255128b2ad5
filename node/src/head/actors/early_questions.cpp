#include "head/actors/early_questions.hpp"

#include <chrono>
#include <utility>

namespace pharos::node::head {
namespace {

constexpr Duration kEarlyTime = std::chrono::seconds{1};  // that a question waits for the message of the actor's maker

}  // namespace

void EarlyQuestions::ask(ActorId actor, Events::Task answer) {
  if (actors_.look_at(actor) != nullptr || waiting_.size() >= kActorsMax) return answer();
  auto& questions = waiting_[actor];
  if (questions.size() >= kActorsMax) return answer();
  questions.push_back(std::move(answer));
  if (questions.size() == 1) answer_later(actor);
}

void EarlyQuestions::answer_later(ActorId actor) {
  events_.run_later(kEarlyTime, [this, actor] {
    if (recovery_.is_under_way()) return answer_later(actor);
    answer(actor);
  });
}

void EarlyQuestions::answer(ActorId actor) {
  auto questions = waiting_.extract(actor);
  if (questions.empty()) return;
  for (Events::Task& question : questions.mapped()) question();
}

}  // namespace pharos::node::head
