#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <pharos/ml/resnet.hpp>

namespace pharos::ml {
namespace {

using at::Tensor;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Sequential;

/// Has no bias, because the batch norm behind it subtracts the mean.
Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t size, std::int64_t stride) {
  return Conv2d{torch::nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2).bias(false)};
}

/// Two convolutions, and a path around them.
class Block : public torch::nn::Module {
 public:
  Block(std::int64_t from, std::int64_t to, std::int64_t stride)
      : conv1_{register_module("conv1", convolution(from, to, 3, stride))},
        bn1_{register_module("bn1", BatchNorm2d{to})},
        conv2_{register_module("conv2", convolution(to, to, 3, 1))},
        bn2_{register_module("bn2", BatchNorm2d{to})} {
    if (from == to) return;
    downsample_ = register_module("downsample", Sequential{convolution(from, to, 1, stride), BatchNorm2d{to}});
  }

  Tensor forward(const Tensor& x) {
    const Tensor past = downsample_.is_empty() ? x : downsample_->forward(x);
    const Tensor between = bn1_(conv1_(x)).relu_();
    return bn2_(conv2_(between)).add_(past).relu_();
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Sequential downsample_{nullptr};
};

Sequential two_blocks(std::int64_t from, std::int64_t to, std::int64_t stride) {
  return Sequential{std::make_shared<Block>(from, to, stride), std::make_shared<Block>(to, to, 1)};
}

}  // namespace

struct ResNet18Impl::Layers {
  bool pools;
  Conv2d conv1;
  BatchNorm2d bn1{64};
  Sequential layer1 = two_blocks(64, 64, 1);
  Sequential layer2 = two_blocks(64, 128, 2);
  Sequential layer3 = two_blocks(128, 256, 2);
  Sequential layer4 = two_blocks(256, 512, 2);
  torch::nn::Linear fc;
};

ResNet18Impl::ResNet18Impl(const ResNet18Options& options)
    : layers_{std::make_shared<Layers>(Layers{.pools = !options.small_images,
                                              .conv1 = options.small_images ? convolution(options.channels, 64, 3, 1)
                                                                            : convolution(options.channels, 64, 7, 2),
                                              .fc = torch::nn::Linear{512, options.classes}})} {
  register_module("conv1", layers_->conv1);
  register_module("bn1", layers_->bn1);
  register_module("layer1", layers_->layer1);
  register_module("layer2", layers_->layer2);
  register_module("layer3", layers_->layer3);
  register_module("layer4", layers_->layer4);
  register_module("fc", layers_->fc);
  // This comes after all modules have drawn their initial values, as in torchvision, so that a seed gives the same
  // values.
  for (const std::shared_ptr<Module>& each : modules(false)) {
    const auto* const conv = each->as<Conv2d>();
    if (conv != nullptr) torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
  }
}

Tensor ResNet18Impl::forward(const Tensor& images) {
  Layers& layers = *layers_;
  Tensor x = layers.bn1(layers.conv1(images)).relu_();
  if (layers.pools) x = at::max_pool2d(x, 3, 2, 1);
  x = layers.layer1->forward(x);
  x = layers.layer2->forward(x);
  x = layers.layer3->forward(x);
  x = layers.layer4->forward(x);
  return layers.fc(x.mean({2, 3}));
}

}  // namespace pharos::ml
