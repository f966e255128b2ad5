#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace pharos::ml {

/// A number that the host will want to know. The copy of it begins at once, on the current stream of its device, and
/// the host waits for it only when it asks, and only for the work before it: not for what the device is given
/// afterwards. A value of the thread that made it. Throws nothing but what libtorch throws.
class Reading {
 public:
  /// `number`: a tensor with one element.
  explicit Reading(const at::Tensor& number);

  double value() const;

 private:
  at::Tensor number_;  // on the host, but not there yet
  std::optional<c10::Event> copied_{};
};

}  // namespace pharos::ml
