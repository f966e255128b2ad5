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

/// What was called, what ran, and what came back, as nobody inside of the cluster could write it down. What must not be
/// is seen when it happens.
class History {
 public:
  /// A call: of an actor, or a task.
  struct Call {
    std::uint64_t actor = 0;   ///< 0: a task
    std::uint64_t caller = 0;  ///< calls of one caller to one actor are in the order of their numbers here
    bool ordered = true;
    bool lingers = false;          ///< while later ones are answered
    bool may_be_given_up = false;  ///< cancelled, or with a deadline
    bool needs_room = false;       ///< in the object store
    std::int32_t retries = 0;
    std::int32_t expected = 0;
  };

  /// Its number, from 1.
  std::uint64_t begin(const Call& call);
  /// It may be given up, after all.
  void give_up(std::uint64_t call) { calls_.at(call - 1).call.may_be_given_up = true; }
  void executed(std::uint64_t call, std::uint64_t actor, std::uint32_t incarnation);
  /// `incarnation`: that has answered.
  void answered(std::uint64_t call, std::int32_t value, std::uint32_t incarnation);
  void failed(std::uint64_t call, const Error& why);
  /// This caller has seen the end of all its calls; of one that has not, and is gone, nothing is asked.
  void finish(std::uint64_t caller) { finished_.insert(caller); }
  /// An actor whose restarts have no end: what is retried succeeds.
  void note_immortal(std::uint64_t actor) { immortal_.insert(actor); }
  /// One that outlives its program, under this name.
  void note_detached(std::uint64_t actor, std::string name) { detached_.emplace(actor, std::move(name)); }
  /// Somebody has ended it.
  void note_killed(std::uint64_t actor) { killed_.insert(actor); }
  const std::map<std::uint64_t, std::string>& detached() const { return detached_; }
  /// It has answered somebody, and nothing may end it.
  bool must_live(std::uint64_t actor) const {
    return immortal_.contains(actor) && !killed_.contains(actor) && newest_of(actor) != 0;
  }
  /// That has answered anybody.
  std::uint32_t newest_of(std::uint64_t actor) const {
    const auto newest = newest_of_all_.find(actor);
    return newest == newest_of_all_.end() ? 0 : newest->second;
  }

  /// A node is silent for as long as one that is dead: what lies there alone may be lost.
  void note_node_silent() { node_silent_ = true; }
  /// Something that is no call went wrong.
  void note_wrong(const std::string& what) { wrong_ += what + '\n'; }

  std::size_t calls() const { return calls_.size(); }
  std::size_t executions() const { return executions_; }
  std::size_t answered() const { return answered_; }

  /// What is wrong with it so far; empty if nothing is.
  const std::string& wrong() const { return wrong_; }
  /// The same, when nothing more will happen.
  std::string check() const;

 private:
  struct Made {
    Call call;
    std::uint32_t not_before = 0;  // when it was made, this incarnation had answered its caller
    std::uint64_t executions = 0;
    bool ended = false;
    bool not_started = false;  // it was said
  };
  using CallerAndActor = std::pair<std::uint64_t, std::uint64_t>;
  void say(std::uint64_t call, const std::string& what);

  std::vector<Made> calls_;
  bool node_silent_ = false;
  std::size_t executions_ = 0;
  std::size_t answered_ = 0;
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, std::uint64_t> last_;  // that ran, by actor,
                                                                                           // incarnation and caller
  std::map<CallerAndActor, std::uint32_t> newest_;                                         // that has answered
  std::map<std::uint64_t, std::uint32_t> newest_of_all_;                                   // the same, whomever
  std::map<std::uint64_t, std::string> detached_;                                          // their names
  std::set<std::uint64_t> immortal_;
  std::set<std::uint64_t> killed_;
  std::set<std::uint64_t> finished_;
  std::string wrong_;
};

}  // namespace pharos::simulator
