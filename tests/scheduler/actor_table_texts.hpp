#pragma once

// The effects of an ActorTable as texts, so that a failed test shows a readable difference.

#include <algorithm>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include <pharos/scheduler/actor_table.hpp>

namespace pharos::scheduler {

using Texts = std::vector<std::string>;

inline std::string incarnation_text(ActorId actor, std::uint32_t incarnation) {
  return std::to_string(actor.value()) + "." + std::to_string(incarnation);
}

inline std::string refused_text(std::uint64_t request, const Error& why) {
  return "refuse " + std::to_string(request) + ", " + std::string{to_string(why.code())} + ": " + why.message();
}

/// In the text, 5.2 is the second incarnation of actor 5.
inline std::string to_text(const ActorEffect& effect) {
  if (const auto* const start = std::get_if<StartIncarnation>(&effect)) {
    return "start " + incarnation_text(start->actor, start->incarnation);
  }
  if (const auto* const end = std::get_if<EndIncarnation>(&effect)) {
    return (end->kill ? "kill " : "end ") + incarnation_text(end->actor, end->incarnation);
  }
  if (const auto* const ready = std::get_if<ActorReady>(&effect)) {
    return "ready " + std::to_string(ready->request.value()) + ", " +
           incarnation_text(ready->actor, ready->incarnation);
  }
  const auto& refused = std::get<ActorRefused>(effect);
  return refused_text(refused.request.value(), refused.why);
}

inline Texts texts(const ActorEffects& effects) {
  Texts result;
  std::transform(effects.begin(), effects.end(), std::back_inserter(result), to_text);
  return result;
}

inline Texts sorted(Texts texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

inline ActorSpec spec_of(std::uint64_t job) {
  ActorSpec spec;
  spec.job = JobId{job};
  spec.label = "a";
  spec.type = "7Counter";
  return spec;
}

}  // namespace pharos::scheduler
