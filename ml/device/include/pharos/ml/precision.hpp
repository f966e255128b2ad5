#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// The precision in which a module of floats computes.
enum class Precision : std::uint8_t {
  kFloat,  ///< floats everywhere
  kBf16,   ///< matrix products and convolutions in bfloat16; sums, norms, losses and the parameters stay floats
  kFp16,   ///< the same in half precision, whose small gradients become 0 unless a GradScaler scales the loss
};

/// Switches libtorch's autocast: as long as the object lives, the operators of this thread on tensors of the device
/// compute in that precision. The destructor restores the earlier settings, on the same thread; Autocasts of one thread
/// end in the reverse order in which they began. Other threads are not affected. It surrounds forward and the loss;
/// backward uses the same precision without it.
///
///   Tensor loss;
///   {
///     const Autocast autocast{device, Precision::kBf16};
///     loss = torch::cross_entropy_loss(model->forward(x), y);
///   }
///   loss.backward();
class PHAROS_API Autocast {
 public:
  /// The setting of autocast for one kind of device.
  struct Setting {
    at::DeviceType device;
    bool is_enabled;
    at::ScalarType type;
  };
  /// The settings of this thread, for all kinds of devices.
  static std::vector<Setting> settings();

  Autocast(at::Device device, Precision precision);
  /// Applies settings that settings() has returned, perhaps on another thread: for code that runs a part of forward
  /// again.
  explicit Autocast(const std::vector<Setting>& settings);
  Autocast(Autocast&&) = delete;
  ~Autocast();

 private:
  const std::vector<Setting> before_ = settings();
};

}  // namespace pharos::ml
