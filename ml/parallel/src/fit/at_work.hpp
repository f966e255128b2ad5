#pragma once

#include <memory>

#include "fit/device_copies.hpp"
#include "fit/logged_means.hpp"

namespace pharos::ml {

class Learner;
class TrainContext;

/// Lets a learner work as one rank: on the rank's device, with what it logs kept until it is taken. The destructor ends
/// that, so the learner must still be there. Owned by fit() and the passes; the rank's thread. The constructor throws
/// what own_device() and libtorch throw.
class LearnerAtWork {
 public:
  LearnerAtWork(TrainContext& context, Learner& learner);
  LearnerAtWork(LearnerAtWork&&) = delete;
  ~LearnerAtWork();

  /// Moves the module to the rank's device, if that is not the CPU.
  void move_to_device();
  /// nullptr on the CPU, and before move_to_device().
  DeviceCopies* copies() const;
  LoggedMeans& logged() const;

 private:
  Learner& learner_;
};

}  // namespace pharos::ml
