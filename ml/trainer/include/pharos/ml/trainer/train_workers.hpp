#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <pharos/actors/actor_group.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/train_worker.hpp>

namespace pharos::ml::detail {

/// The group of actors that are the ranks of a training, independent of the training function. Owned by a RankGroup;
/// one thread. Calls of the actors do not wait for results, except for connect(), which throws as ml::connect(). The
/// errors of the other calls are in their results. Without end() or kill(), the actors end when their calls have been
/// answered.
class PHAROS_API TrainWorkers {
 public:
  TrainWorkers() = default;
  TrainWorkers(TrainWorkers&&) = delete;
  virtual ~TrainWorkers();

  virtual pharos::detail::CellHandle ready() const = 0;
  virtual void connect(const CommunicatorOptions& options) const = 0;
  virtual pharos::detail::CellHandle run(std::size_t rank, const TrainBegin& begin) const = 0;
  /// Calls next() of rank 0, whose result is a TrainNews.
  virtual pharos::detail::CellHandle next() const = 0;
  /// Calls greet() of a rank, whose result is a TrainSign.
  virtual pharos::detail::CellHandle greet(std::size_t rank) const = 0;
  virtual pharos::detail::CellHandle rejoin(std::size_t rank) const = 0;
  /// Tells the training functions of all ranks to stop.
  virtual void stop() const = 0;
  /// Ends the group after its functions have returned.
  virtual void end() const = 0;
  virtual void kill() const = 0;
  virtual void kill(std::size_t rank) const = 0;
  /// The present actors, by rank, as addresses to compare. Empty if the group has failed.
  virtual std::vector<const void*> who() const = 0;
};
/// Throws what Runtime::spawn_group() throws. Valid as long as the Trainer and its Runtime.
using MakeTrainWorkers = std::function<std::unique_ptr<TrainWorkers>(const ActorGroupOptions& options)>;

template <class Worker>
class GroupOfTrainWorkers final : public TrainWorkers {
 public:
  explicit GroupOfTrainWorkers(ActorGroup<Worker> group) : group_{std::move(group)} {}

  pharos::detail::CellHandle ready() const override { return group_.ready().cell(); }
  void connect(const CommunicatorOptions& options) const override { ml::connect(group_, options); }
  pharos::detail::CellHandle run(std::size_t rank, const TrainBegin& begin) const override {
    return group_.template call<&Worker::run>(rank, begin).cell();
  }
  pharos::detail::CellHandle next() const override { return group_.template call<&Worker::next>(0).cell(); }
  pharos::detail::CellHandle greet(std::size_t rank) const override {
    return group_.template call<&Worker::greet>(rank).cell();
  }
  pharos::detail::CellHandle rejoin(std::size_t rank) const override {
    return group_.template call<&Worker::rejoin>(rank).cell();
  }
  void stop() const override {
    for (const Ref<void>& each : group_.template call_all<&Worker::stop>()) static_cast<void>(each);
  }
  void end() const override { group_.stop(); }
  void kill() const override { group_.kill(); }
  void kill(std::size_t rank) const override { group_.member(rank).kill(); }
  std::vector<const void*> who() const override {
    const auto term = pharos::detail::term_of(*group_.core());
    std::vector<const void*> actors;
    for (const auto& each : term->actors) actors.push_back(each.get());
    return term->failed ? std::vector<const void*>{} : actors;
  }

 private:
  ActorGroup<Worker> group_;
};

}  // namespace pharos::ml::detail
