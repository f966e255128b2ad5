#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/error.hpp>

namespace pharos::simulator {

/// What was called, what ran, and what came back, as nobody inside of the cluster could write it down.
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
    std::optional<std::int32_t> value{};
    std::uint32_t incarnation = 0;  ///< that answered
    std::optional<Error> error{};
    bool ended = false;
  };
  struct Execution {
    std::uint64_t call;
    std::uint64_t actor;
    std::uint32_t incarnation;
  };

  /// Its number, from 1.
  std::uint64_t begin(Call call) {
    calls_.push_back(std::move(call));
    return calls_.size();
  }
  Call& call(std::uint64_t number) { return calls_.at(number - 1); }
  void executed(std::uint64_t call, std::uint64_t actor, std::uint32_t incarnation) {
    executions_.push_back({call, actor, incarnation});
  }
  /// This caller has seen the end of all its calls; of one that has not, and is gone, nothing is asked.
  void finish(std::uint64_t caller) { finished_.push_back(caller); }
  /// An actor whose restarts have no end: what is retried succeeds.
  void note_immortal(std::uint64_t actor) { immortal_.push_back(actor); }

  /// Something that is no call went wrong.
  void note_wrong(const std::string& what) { noted_ += what + '\n'; }

  std::size_t calls() const { return calls_.size(); }
  std::size_t executions() const { return executions_.size(); }
  std::size_t answered() const;

  /// What is wrong with it; empty if nothing is.
  std::string check() const;

 private:
  std::vector<Call> calls_;
  std::vector<Execution> executions_;
  std::vector<std::uint64_t> immortal_;
  std::vector<std::uint64_t> finished_;
  std::string noted_;
};

}  // namespace pharos::simulator
