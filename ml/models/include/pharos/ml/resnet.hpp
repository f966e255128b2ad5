#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>

#include <pharos/base/export.hpp>

namespace pharos::ml {

struct ResNet18Options {
  std::int64_t channels = 3;  ///< The channels of the images.
  std::int64_t classes = 1000;
  /// For images of about 32 pixels a side. The first layer is then a convolution of 3x3 that keeps the size of the
  /// image. Otherwise it is a convolution of 7x7 with a pooling, which reduce each side to a quarter. With small_images
  /// the network sees more detail, and computes 16 times as much.
  bool small_images = false;
};

/// A residual network of 18 layers (He and others, 2016). Parameters and buffers have the names that torchvision uses,
/// so that state dicts of either network load in the other. They have the same initial values as in torchvision for the
/// same seed. One thread at a time, as any torch module. The program owns it by ResNet18, whose copies share one
/// network.
///
///   ml::ResNet18 network;
///   ml::load_arrays(*network, ml::read_torch("resnet18.pth"));
///   const at::Tensor scores = network(images);
class PHAROS_API ResNet18Impl : public torch::nn::Module {
 public:
  explicit ResNet18Impl(const ResNet18Options& options = {});

  /// Computes scores of shape (n, classes) from images of shape (n, channels, height, width) and any size. Throws
  /// c10::Error if the images have another shape, type or device than the parameters need.
  at::Tensor forward(const at::Tensor& images);

 private:
  struct Layers;
  std::shared_ptr<Layers> layers_;
};
TORCH_MODULE(ResNet18);

}  // namespace pharos::ml
