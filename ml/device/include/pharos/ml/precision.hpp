#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

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
  Autocast(at::Device device, Precision precision);
  Autocast(Autocast&&) = delete;
  ~Autocast();

 private:
  const at::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType type_before_;
};

}  // namespace pharos::ml
