#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>

#include <pharos/base/export.hpp>

namespace pharos::ml {

struct ResNet18Options {
  std::int64_t channels = 3;  ///< of the images
  std::int64_t classes = 1000;
  /// For images of 32 pixels or so. It begins with a convolution of 3x3 that leaves them as large as they are, in place
  /// of one of 7x7 and a pooling that leave a quarter of each side: it sees more, and computes 16 times as much.
  bool small_images = false;
};

/// A residual network of 18 layers (He and others, 2016). Parameters and buffers have torchvision's names, so that
/// state dicts of one load in the other, and begin as there: with the same numbers for the same seed.
///
///   ml::ResNet18 network;
///   ml::load_arrays(*network, ml::read_torch("resnet18.pth"));
///   const at::Tensor scores = network(images);
class PHAROS_API ResNet18Impl : public torch::nn::Module {
 public:
  explicit ResNet18Impl(const ResNet18Options& options = {});

  /// Images (n, channels, height, width), of any size, to scores (n, classes).
  at::Tensor forward(const at::Tensor& images);

 private:
  struct Layers;
  std::shared_ptr<Layers> layers_;
};
TORCH_MODULE(ResNet18);

}  // namespace pharos::ml
