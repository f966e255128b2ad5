#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/base/error.hpp>

namespace pharos::simulator {

/// Records which calls were made, which ran, and which results came back, from outside of the cluster: no process of
/// the cluster sees all of this. A violation is recorded when it happens.
class History {
 public:
  /// A call of an actor, or a task.
  struct Call {
    std::uint64_t actor = 0;   ///< 0 for a task
    std::uint64_t caller = 0;  ///< calls of one caller to one actor are in the order of their numbers here
    bool ordered = true;
    bool lingers = false;          ///< may still run while later calls are answered
    bool may_be_given_up = false;  ///< may fail with retries left, because it is cancelled or has a deadline
    bool needs_room = false;       ///< needs room in the object store
    bool one_way = false;          ///< nobody waits for its result
    std::int32_t retries = 0;
    std::int32_t expected = 0;
  };

  /// Adds a call and returns its number, from 1.
  std::uint64_t begin(const Call& call);
  /// The call may be given up after all.
  void give_up(std::uint64_t call) { calls_.at(call - 1).call.may_be_given_up = true; }
  void executed(std::uint64_t call, std::uint64_t actor, std::uint32_t incarnation);
  /// `incarnation` is the one that has answered.
  void answered(std::uint64_t call, std::int32_t value, std::uint32_t incarnation);
  void failed(std::uint64_t call, const Error& why);
  /// The caller is about to raise a counter that all callers share. A caller that never says more may have raised it.
  void begin_raise() { ++perhaps_raised_; }
  /// The caller has raised the counter from `from` to `from` + 1, or was told that it has not.
  void end_raise(std::int32_t from, bool raised);
  /// The least that the counter is now.
  std::int32_t counter_min() const { return raised_.empty() ? 0 : *raised_.rbegin() + 1; }
  /// The caller has seen this value of the counter, which was at least `min` when it began to look.
  void note_seen(std::int32_t count, std::int32_t min);
  /// This caller has seen the end of all its calls. check() does not ask for the calls of a caller that died before.
  void finish(std::uint64_t caller) { finished_.insert(caller); }
  /// The actor is restarted without limit, so calls with retries have to succeed.
  void note_immortal(std::uint64_t actor) { immortal_.insert(actor); }
  /// The actor outlives its program, under this name.
  void note_detached(std::uint64_t actor, std::string name) { detached_.emplace(actor, std::move(name)); }
  /// A program has killed the actor.
  void note_killed(std::uint64_t actor) { killed_.insert(actor); }
  const std::map<std::uint64_t, std::string>& detached() const { return detached_; }
  /// Returns whether the actor has answered a call and nothing may end it.
  bool must_live(std::uint64_t actor) const {
    return immortal_.contains(actor) && !killed_.contains(actor) && newest_of(actor) != 0;
  }
  /// The newest incarnation that has answered any caller; 0 if there is none.
  std::uint32_t newest_of(std::uint64_t actor) const {
    const auto newest = newest_of_all_.find(actor);
    return newest == newest_of_all_.end() ? 0 : newest->second;
  }

  /// A node is silent for so long that the head may take it for dead. Objects that are only on that node may be lost.
  void note_node_silent() { node_silent_ = true; }
  /// Records a violation that belongs to no call.
  void note_wrong(const std::string& what) { wrong_ += what + '\n'; }

  std::size_t calls() const { return calls_.size(); }
  std::size_t executions() const { return executions_; }
  std::size_t answered() const { return answered_; }

  /// The violations so far; empty if there are none.
  const std::string& wrong() const { return wrong_; }
  /// To be called when the run is over: returns the violations, and the calls that have not ended.
  std::string check() const;

 private:
  struct Made {
    Call call;
    std::uint32_t not_before = 0;  // newest incarnation that had answered the caller when the call was made
    std::uint64_t executions = 0;
    bool ended = false;
    bool not_started = false;  // the caller was told that the call did not start
  };
  using CallerAndActor = std::pair<std::uint64_t, std::uint64_t>;
  void check_sent(std::uint64_t answered);
  void say(std::uint64_t call, const std::string& what);

  std::vector<Made> calls_;
  bool node_silent_ = false;
  std::size_t executions_ = 0;
  std::size_t answered_ = 0;
  // The last call that ran, by actor, incarnation and caller.
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, std::uint64_t> last_;
  std::map<CallerAndActor, std::vector<std::uint64_t>> sent_;  // one-way calls behind which no call was answered yet
  std::set<std::int32_t> raised_;
  std::int32_t perhaps_raised_ = 0;                       // of callers that do not know it, or not yet
  std::map<CallerAndActor, std::uint32_t> newest_;        // newest incarnation that has answered this caller
  std::map<std::uint64_t, std::uint32_t> newest_of_all_;  // newest incarnation that has answered any caller
  std::map<std::uint64_t, std::string> detached_;         // names of detached actors
  std::set<std::uint64_t> immortal_;
  std::set<std::uint64_t> killed_;
  std::set<std::uint64_t> finished_;
  std::string wrong_;
};

}  // namespace pharos::simulator
