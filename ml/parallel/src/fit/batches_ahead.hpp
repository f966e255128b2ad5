#pragma once

#include <exception>
#include <optional>

#include <pharos/ml/loader.hpp>

#include "fit/device_copies.hpp"

namespace pharos::ml {

/// The batches of a loader, whose copies to a device begin one batch ahead. Without `copies` it adds nothing to the
/// loader. Functions mean and throw what the loader's do; the error of a batch comes when it is that batch's turn.
/// Owned by fit(), as are the loader and the copies, which outlive it. The rank's thread.
class BatchesAhead {
 public:
  BatchesAhead(Loader& loader, DeviceCopies* copies) : loader_{loader}, copies_{copies} {}

  std::optional<Batch> next();
  Position position() const { return given_ ? given_->position : loader_.position(); }
  bool at_end() const { return given_ ? given_->at_end : loader_.at_end(); }
  void seek(Position position);

 private:
  /// What the loader's next() has returned, and what the loader said then.
  struct Taken {
    std::optional<Batch> batch{};
    std::exception_ptr threw{};
    Position position{};
    bool at_end = false;
  };
  Taken take();

  Loader& loader_;
  DeviceCopies* const copies_;
  std::optional<Taken> given_;  // without its batch
  std::optional<Taken> ahead_;
};

}  // namespace pharos::ml
