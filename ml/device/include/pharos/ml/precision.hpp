#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

/// What a module of floats computes in.
enum class Precision : std::uint8_t {
  kFloat,  ///< floats everywhere
  kBf16,   ///< matrix products and convolutions in bfloat16; sums, norms, losses and the parameters stay floats
};

/// As long as it lives, this thread's operators on tensors of the device compute in that precision: libtorch's
/// autocast. It surrounds forward and the loss; backward follows by itself.
///
///   Tensor loss;
///   {
///     const Autocast autocast{device, Precision::kBf16};
///     loss = torch::cross_entropy_loss(model->forward(x), y);
///   }
///   loss.backward();
class PHAROS_API Autocast {
 public:
  /// How autocast is set for the devices of one kind.
  struct Setting {
    at::DeviceType device;
    bool is_enabled;
    at::ScalarType type;
  };
  /// This thread's, of all kinds of devices.
  static std::vector<Setting> settings();

  Autocast(at::Device device, Precision precision);
  /// As settings() has found them, perhaps on another thread: for what runs a part of forward again.
  explicit Autocast(const std::vector<Setting>& settings);
  Autocast(Autocast&&) = delete;
  ~Autocast();

 private:
  const std::vector<Setting> before_ = settings();
};

}  // namespace pharos::ml
