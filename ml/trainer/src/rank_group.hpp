#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <pharos/actors/wait.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/trainer.hpp>

namespace pharos::ml {

/// The death of a rank after which all ranks begin again, and why no process could take the rank's place.
Error no_replacement(const Error& death, const std::string& why);

/// The ranks of one attempt at a training. Owns them; one thread.
class RankGroup {
 public:
  /// How it has ended.
  enum class How : std::uint8_t {
    kReturned,   ///< all ranks
    kMakesRoom,  ///< all have, because one of them is to be elsewhere
    kLost,       ///< not yet: a rank is gone, or has not come in time, and may be replaced
    kDied,       ///< a rank is gone, or has not come in time
    kThrew,      ///< a rank, of its own
  };
  struct End {
    How how = How::kReturned;
    std::optional<Error> why{};
  };

  RankGroup(const detail::MakeTrainWorkers& make, const TrainerOptions& options);
  RankGroup(RankGroup&&) = delete;
  /// Kills those that run.
  ~RankGroup();

  /// Waits until there is room for them and they are there, or until `interrupted`: then false.
  Result<bool> make_ready(const std::function<bool()>& interrupted, TimePoint until = TimePoint::max());
  void begin(detail::TrainBegin begin);
  /// What rank 0 says, by then.
  std::vector<detail::TrainEvent> wait(TimePoint until);
  /// Of each rank, by its number; 0: not known.
  std::vector<std::int32_t> processes() const;
  /// At their next report.
  void stop();
  /// None: it runs still.
  std::optional<End> end();
  /// After kLost: others take the place of those that are gone. False: it was interrupted. After an error it is over.
  Result<bool> replace(const std::function<bool()>& interrupted);
  /// In whose place others are since then.
  const std::vector<std::size_t>& replaced() const { return replaced_; }

 private:
  struct Rank {
    const void* who = nullptr;
    std::int32_t process = 0;  ///< its number; 0: not known
    std::optional<detail::TrainEnd> end{};
    TimePoint greeted_at{};
    bool has_answered = true;
    bool waits = false;  ///< for another process in the place of one that is gone
  };
  /// What a result is of.
  struct Awaited {
    enum class What : std::uint8_t { kNews, kEnd, kAnswer };
    What what;
    std::size_t rank;
    const void* who = nullptr;  // what one says whose place another has taken does not count
  };

  void await(pharos::detail::CellHandle cell, Awaited::What what, std::size_t rank);
  void begin(std::size_t rank);
  Result<bool> rejoin(const std::vector<const void*>& who, TimePoint until);
  void greet();
  void look_for_missing();
  void miss_who_has_returned();
  void take(const pharos::detail::CellHandle& cell, const Awaited& of, std::vector<detail::TrainEvent>& events);
  void lose(std::size_t rank, Error why);

  const Duration timeout_;
  detail::TrainBegin begin_;
  std::unique_ptr<detail::TrainWorkers> workers_;
  std::vector<Rank> ranks_;
  std::size_t ended_ = 0;
  bool news_is_all_ = false;
  OnRankDeath on_death_ = OnRankDeath::kBeginAgain;
  std::set<std::size_t> lost_;
  std::vector<std::size_t> replaced_;
  std::optional<Error> died_;
  std::optional<Error> left_;   // a rank has, and others wait for it
  std::uint64_t reported_ = 0;  // the newest step
  std::optional<TimePoint> threw_at_;
  std::optional<TimePoint> waits_since_;  // a rank, and nobody is known to be gone
  std::unordered_map<const pharos::detail::ResultCell*, Awaited> awaited_;
  pharos::detail::ReadyQueue queue_;
};

}  // namespace pharos::ml
