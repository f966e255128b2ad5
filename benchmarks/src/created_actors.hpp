#pragma once

#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

#include "figures.hpp"

namespace bench {

/// Returns how many process actors can be created in a second. An actor counts as created when it has answered a call.
template <class Member, auto kMethod>
double actors_per_s(pharos::Runtime& runtime) {
  constexpr int kActors = 100;
  std::vector<double> rates;
  for (int round = 0; round < 4; ++round) {
    std::vector<pharos::Actor<Member>> actors;
    std::vector<decltype(actors.back().template call<kMethod>())> answers;
    const auto start = Clock::now();
    for (int i = 0; i < kActors; ++i) {
      actors.push_back(runtime.spawn<Member>({.resources = {{"seat", 1}}}));
      answers.push_back(actors.back().template call<kMethod>());
    }
    for (const auto& answer : answers) static_cast<void>(answer.get());
    if (round != 0) rates.push_back(kActors / seconds_since(start));  // the nodes load the program in the first round
  }
  return median(std::move(rates));
}

}  // namespace bench
