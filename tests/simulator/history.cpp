#include "history.hpp"

#include <algorithm>

namespace pharos::simulator {

void History::say(std::uint64_t call, const std::string& what) {
  wrong_ += "call " + std::to_string(call) + ' ' + what + '\n';
}

std::uint64_t History::begin(const Call& call) {
  const std::uint32_t not_before = call.actor == 0 ? 0 : newest_[{call.caller, call.actor}];
  calls_.push_back({call, not_before});
  if (call.one_way) {
    calls_.back().ended = true;
    sent_[{call.caller, call.actor}].push_back(calls_.size());
  }
  return calls_.size();
}

// When a call is answered, the one-way calls before it have run, unless an incarnation has died with them.
void History::check_sent(std::uint64_t answered) {
  const Call& call = calls_.at(answered - 1).call;
  const auto sent = sent_.find({call.caller, call.actor});
  if (!call.ordered || call.lingers || sent == sent_.end()) return;
  std::erase_if(sent->second, [&](std::uint64_t number) {
    if (number > answered) return false;
    const Made& made = calls_.at(number - 1);
    if (made.executions == 0 && made.call.retries != 0) say(number, "was sent and never ran");
    return true;
  });
}

void History::end_raise(std::int32_t from, bool raised) {
  --perhaps_raised_;
  if (raised && !raised_.insert(from).second) {
    note_wrong("two were told that they have raised the counter from " + std::to_string(from));
  }
}

void History::note_seen(std::int32_t count, std::int32_t min) {
  const std::int32_t max = static_cast<std::int32_t>(raised_.size()) + perhaps_raised_;
  if (count >= min && count <= max) return;
  note_wrong("the counter is " + std::to_string(count) + ", and should be at least " + std::to_string(min) +
             " and at most " + std::to_string(max));
}

// Within one incarnation a call runs once, and after all earlier calls of its caller.
void History::executed(std::uint64_t number, std::uint64_t actor, std::uint32_t incarnation) {
  Made& made = calls_.at(number - 1);
  const Call& call = made.call;
  ++executions_;
  if (++made.executions > 1 && call.retries == 0) say(number, "ran more than once without retries");
  if (made.not_started) say(number, "runs although it was said not to have started");
  if (call.actor == 0) return;
  const std::string where = " in incarnation " + std::to_string(incarnation);
  if (call.actor != actor) say(number, "ran in an actor it was not made to");
  if (incarnation < made.not_before) {
    say(number, "ran" + where + " when " + std::to_string(made.not_before) + " had answered before it was made");
  }
  if (!call.ordered) return;
  const auto [place, first] = last_.try_emplace({actor, incarnation, call.caller}, number);
  if (first) return;
  if (place->second == number) {
    say(number, "ran twice" + where);
  } else if (place->second > number) {
    say(number, "ran after " + std::to_string(place->second) + ", which was made later," + where);
  }
  place->second = number;
}

void History::answered(std::uint64_t number, std::int32_t value, std::uint32_t incarnation) {
  Made& made = calls_.at(number - 1);
  const Call& call = made.call;
  made.ended = true;
  ++answered_;
  if (value != call.expected) say(number, "gave " + std::to_string(value) + " for " + std::to_string(call.expected));
  if (made.executions == 0) say(number, "was answered and never ran");
  if (call.actor == 0) return;
  check_sent(number);
  std::uint32_t& newest = newest_of_all_[call.actor];
  newest = std::max(newest, incarnation);
  if (call.lingers) return;
  std::uint32_t& seen = newest_[{call.caller, call.actor}];
  if (incarnation < seen) say(number, "was answered by an incarnation older than one that had answered before");
  seen = std::max(seen, incarnation);
}

void History::failed(std::uint64_t number, const Error& why) {
  Made& made = calls_.at(number - 1);
  const Call& call = made.call;
  made.ended = true;
  made.not_started = why.outcome() == Outcome::kNotStarted;
  if (made.not_started && made.executions != 0) {
    say(number, "was said not to have started, and ran: " + why.to_string());
  }
  const bool lives = call.actor == 0 || immortal_.contains(call.actor);
  const bool node_gone = why.code() == ErrorCode::kRuntimeStopped;
  const bool no_room = call.needs_room && why.code() == ErrorCode::kExhausted;
  const bool argument_lost = call.needs_room && why.code() == ErrorCode::kObjectLost && node_silent_;
  if (lives && call.retries != 0 && !call.may_be_given_up && !node_gone && !no_room && !argument_lost) {
    say(number, "failed although it had retries left: " + why.to_string());
  }
}

std::string History::check() const {
  std::string wrong = wrong_;
  for (std::size_t place = 0; place < calls_.size(); ++place) {
    if (calls_[place].ended || !finished_.contains(calls_[place].call.caller)) continue;
    wrong += "call " + std::to_string(place + 1) + " has not ended\n";
  }
  return wrong;
}

}  // namespace pharos::simulator
