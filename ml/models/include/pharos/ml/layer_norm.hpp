#pragma once

#include <ATen/core/Tensor.h>

#include <pharos/base/export.hpp>

/// Layer normalisation over the last dimension, together with the addition that comes before it in a transformer.
namespace pharos::ml {

inline constexpr double kNormEpsilon = 1e-5;

/// The same as torch::layer_norm(x, {x.size(-1)}, weight, bias, epsilon).
PHAROS_API at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                 double epsilon = kNormEpsilon);

/// A sum, and the sum normalised.
struct SumAndNorm {
  at::Tensor sum;
  at::Tensor norm;
};
/// Adds what a branch of a network gives to its stream `x`, and normalises the sum for the next branch:
///
///   auto [x, in] = add_layer_norm(stream, attention->forward(…), norm->weight, norm->bias);
///
/// gives what `x = stream + …` and `in = norm->forward(x)` give, and the same gradients. `branch` has the sizes of `x`;
/// `weight` and `bias` have a number for each number of the last dimension. On GPUs a kernel of Pharos does both in one
/// pass over the memory, and another one computes all gradients, if the tensors are of one type, contiguous, outside
/// of autocast, and their last dimension is a multiple of 16 bytes and at most 16 384 numbers. Throws libtorch's
/// exceptions, also in a backward with create_graph where the kernel is used. Any thread.
PHAROS_API SumAndNorm add_layer_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                                     const at::Tensor& bias, double epsilon = kNormEpsilon);

}  // namespace pharos::ml
