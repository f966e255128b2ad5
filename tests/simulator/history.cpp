#include "history.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

namespace pharos::simulator {

std::size_t History::answered() const {
  return static_cast<std::size_t>(
      std::count_if(calls_.begin(), calls_.end(), [](const Call& call) { return call.value.has_value(); }));
}

std::string History::check() const {
  std::ostringstream wrong;
  wrong << noted_;
  std::vector<std::size_t> times(calls_.size() + 1);
  // By incarnation and caller: a call runs there once, after all earlier ones of its caller.
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, std::uint64_t> last;
  for (const Execution& execution : executions_) {
    const Call& call = calls_[execution.call - 1];
    ++times[execution.call];
    if (call.actor == 0) continue;
    if (call.actor != execution.actor) wrong << "call " << execution.call << " ran in an actor it was not made to\n";
    if (!call.ordered) continue;
    const auto [place, first] = last.try_emplace({execution.actor, execution.incarnation, call.caller}, execution.call);
    if (first) continue;
    if (place->second == execution.call) {
      wrong << "call " << execution.call << " ran twice in incarnation " << execution.incarnation << '\n';
    } else if (place->second > execution.call) {
      wrong << "call " << execution.call << " ran after " << place->second << ", which was made later, in incarnation "
            << execution.incarnation << '\n';
    }
    place->second = execution.call;
  }
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> newest;  // by caller and actor
  for (std::uint64_t number = 1; number <= calls_.size(); ++number) {
    const Call& call = calls_[number - 1];
    const auto say = [&](const std::string& what) { wrong << "call " << number << ' ' << what << '\n'; };
    if (!call.ended) {
      if (std::find(finished_.begin(), finished_.end(), call.caller) != finished_.end()) say("has not ended");
      continue;
    }
    if (call.retries == 0 && times[number] > 1) say("ran more than once without retries");
    if (call.value) {
      if (*call.value != call.expected) {
        say("gave " + std::to_string(*call.value) + " for " + std::to_string(call.expected));
      }
      if (times[number] == 0) say("was answered and never ran");
      if (call.actor != 0 && !call.lingers) {
        std::uint32_t& seen = newest[{call.caller, call.actor}];
        if (call.incarnation < seen) say("was answered by an incarnation older than one that had answered before");
        seen = std::max(seen, call.incarnation);
      }
      continue;
    }
    if (call.error->outcome() == Outcome::kNotStarted && times[number] != 0) {
      say("was said not to have started, and ran: " + call.error->to_string());
    }
    const bool lives = call.actor == 0 || std::find(immortal_.begin(), immortal_.end(), call.actor) != immortal_.end();
    const bool node_gone = call.error->code() == ErrorCode::kRuntimeStopped;
    const bool no_room = call.needs_room && call.error->code() == ErrorCode::kExhausted;
    if (lives && call.retries != 0 && !call.may_be_given_up && !node_gone && !no_room) {
      say("failed although it had retries left: " + call.error->to_string());
    }
  }
  return wrong.str();
}

}  // namespace pharos::simulator
