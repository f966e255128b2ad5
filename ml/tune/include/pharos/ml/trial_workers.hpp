#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <pharos/actors/actor_group.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/group.hpp>
#include <pharos/ml/trial_worker.hpp>

namespace pharos::ml::detail {

/// The actors that run one trial together, whatever the type of the actors is. The slot that they run in owns them; one
/// thread. Only connect() waits for results, and throws as ml::connect(). The errors of the other calls are in their
/// results. Without end() or kill(), the actors end when their calls have been answered.
class PHAROS_API TrialWorkers {
 public:
  TrialWorkers() = default;
  TrialWorkers(TrialWorkers&&) = delete;
  virtual ~TrialWorkers();

  /// Returns false if the objective cannot report. Then the result of next() with a TrialStart has the end of the
  /// trial, and the next TrialStart may be sent before that.
  virtual bool may_report() const = 0;
  virtual pharos::detail::CellHandle ready() const = 0;
  virtual void connect() const = 0;
  virtual pharos::detail::CellHandle next(std::size_t worker, const TrialOrder& order) const = 0;
  virtual void stop() const = 0;
  virtual void set_cores(std::uint32_t cores) const = 0;
  virtual pharos::detail::CellHandle node() const = 0;  ///< node of the first worker, as a number
  virtual void end() const = 0;
  virtual void kill() const = 0;
};
/// Throws what Runtime::spawn_group() throws. Valid as long as the Tuner and its Runtime.
using MakeTrialWorkers = std::function<std::unique_ptr<TrialWorkers>(const ActorGroupOptions& options)>;

template <class Worker>
class GroupOfTrialWorkers final : public TrialWorkers {
 public:
  explicit GroupOfTrialWorkers(ActorGroup<Worker> group) : group_{std::move(group)} {}

  bool may_report() const override { return Worker::kMayReport; }
  pharos::detail::CellHandle ready() const override { return group_.ready().cell(); }
  void connect() const override { ml::connect(group_); }
  pharos::detail::CellHandle next(std::size_t worker, const TrialOrder& order) const override {
    return group_.template call<&Worker::next>(worker, order).cell();
  }
  void stop() const override {
    for (const Ref<void>& each : group_.template call_all<&Worker::stop>()) static_cast<void>(each);
  }
  void set_cores(std::uint32_t cores) const override {
    static_cast<void>(group_.template call<&Worker::set_cores>(0, cores));
  }
  pharos::detail::CellHandle node() const override { return group_.template call<&Worker::node>(0).cell(); }
  void end() const override { group_.stop(); }
  void kill() const override { group_.kill(); }

 private:
  ActorGroup<Worker> group_;
};

}  // namespace pharos::ml::detail
