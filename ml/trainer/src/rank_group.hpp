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
#include <pharos/ml/trainer/train_workers.hpp>
#include <pharos/ml/trainer_options.hpp>

namespace pharos::ml {

/// An error that names the death of a rank, and says why no other process could take the rank's place.
Error no_replacement(const Error& death, const std::string& why);

/// The ranks of one attempt at a training: starts them, watches them, and replaces those that die. Owns the actors. One
/// thread, that of Trainer::run(), which owns the group. Destroying it ends the actors without a wait: in order if the
/// functions of all ranks have ended and no death is known, and otherwise with a kill. News that were not fetched are
/// dropped.
class RankGroup {
 public:
  /// How the attempt has ended.
  enum class How : std::uint8_t {
    kReturned,   ///< All ranks have returned.
    kMakesRoom,  ///< All ranks have returned, because one of them has to leave its place.
    kLost,       ///< It has not ended: a rank has died, or has not come in time, and may be replaced by replace().
    kDied,       ///< A rank has died, or has not come in time.
    kThrew,      ///< The function of a rank has thrown by itself, or has returned while other ranks wait for it.
  };
  struct End {
    How how = How::kReturned;
    std::optional<Error> why{};
  };

  /// Makes the actors. Throws what `make` throws. Keeps no reference to the arguments.
  RankGroup(const detail::MakeTrainWorkers& make, const TrainerOptions& options);
  RankGroup(RankGroup&&) = delete;
  ~RankGroup();

  /// Waits until the actors have been placed and connected. Returns false if `interrupted` returned true before; it is
  /// asked every 100 ms, but not while the actors are connected. Fails with the error of the placement, of a
  /// constructor or of ml::connect(), and with kDeadlineExceeded if the actors are not placed by `until`.
  Result<bool> make_ready(const std::function<bool()>& interrupted, TimePoint until = TimePoint::max());
  /// Called once make_ready() has returned true: starts the function on all ranks.
  void begin(detail::TrainBegin begin);
  /// Waits for news until that time, and returns the events of rank 0. Other news end the wait, too, and then there may
  /// be no events.
  std::vector<detail::TrainEvent> wait(TimePoint until);
  /// The process ids of the ranks, by rank; 0 if unknown.
  std::vector<std::int32_t> processes() const;
  /// Tells all ranks to stop at their next report.
  void stop();
  /// How the attempt has ended; nullopt while it runs. If a function has thrown, and other ranks still run, the answer
  /// comes a second later, because a death that explains the exception may become known.
  std::optional<End> end();
  /// After kLost: kills the lost ranks that still live, and waits until other processes have taken the place of the
  /// lost ranks, at most for TrainerOptions::timeout, and then for ml::connect(). Returns false if it was interrupted.
  /// After an error, which is the death itself or the reason why there is no other process, the attempt is over.
  Result<bool> replace(const std::function<bool()>& interrupted);
  /// After kReturned or kMakesRoom: rank 0's TrainContext::model().
  std::vector<NamedArray> take_model() { return std::move(ranks_[0].end->model); }
  /// The ranks that the last replace() has replaced.
  const std::vector<std::size_t>& replaced() const { return replaced_; }

 private:
  struct Rank {
    const void* who = nullptr;  ///< its actor, as an address to compare
    std::int32_t process = 0;   ///< its process id; 0 if unknown
    std::optional<detail::TrainEnd> end{};
    TimePoint greeted_at{};
    bool has_answered = true;
    bool waits = false;  ///< it waits for the replacement of a rank that has died
  };
  /// The call to which an awaited result belongs.
  struct Awaited {
    enum class What : std::uint8_t { kNews, kEnd, kAnswer };
    What what;
    std::size_t rank;
    const void* who = nullptr;  // the actor that was called; results of an actor that was replaced are ignored
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
  const GpuPath gpu_path_;
  detail::TrainBegin begin_;
  std::unique_ptr<detail::TrainWorkers> workers_;
  std::vector<Rank> ranks_;
  std::size_t ended_ = 0;
  bool news_is_all_ = false;
  OnRankDeath on_death_ = OnRankDeath::kBeginAgain;
  std::set<std::size_t> lost_;
  std::vector<std::size_t> replaced_;
  std::optional<Error> died_;
  std::optional<Error> left_;   // set if a rank has returned while other ranks wait for it
  std::uint64_t reported_ = 0;  // the newest step that was reported
  std::optional<TimePoint> threw_at_;
  std::optional<TimePoint> waits_since_;  // since when a rank waits for a replacement, while no death is known
  std::unordered_map<const pharos::detail::ResultCell*, Awaited> awaited_;
  pharos::detail::ReadyQueue queue_;
};

}  // namespace pharos::ml
