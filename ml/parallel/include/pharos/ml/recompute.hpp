#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>

/// Activation checkpointing, which takes less memory and more time: the intermediate results of a part of a module are
/// not kept for backward, but computed a second time there.
///
///   for (auto& layer : *layers) x = checkpoint([&](const at::Tensor& in) { return layer->forward(in); }, x);
///
/// The part must do the same both times. Random numbers that it draws (dropout) and the settings of autocast are the
/// same both times. The part runs on the thread that calls checkpoint(), and the second time on the thread that runs
/// backward. The graph keeps the part and its inputs; objects that the part captures by reference must live until
/// backward. Calls may be nested. Gradients flow through a part in backward() only, not in autograd::grad(). Exceptions
/// of the part come out of checkpoint(), or, the second time, out of backward(). Without gradients (NoGradGuard) the
/// part just runs.
namespace pharos::ml {

PHAROS_API std::vector<at::Tensor> checkpoint(
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> part, const std::vector<at::Tensor>& inputs);

/// The same for a part that takes one or several tensors and returns one.
template <class Part, class... Inputs>
requires(std::same_as<std::remove_cvref_t<Inputs>, at::Tensor>&&...) at::Tensor
    checkpoint(Part part, const Inputs&... inputs) {
  const auto call =
      [part = std::move(part)]<std::size_t... i>(const std::vector<at::Tensor>& from, std::index_sequence<i...>) {
    return part(from[i]...);
  };
  return checkpoint(
             [call](const std::vector<at::Tensor>& from) {
               return std::vector<at::Tensor>{call(from, std::index_sequence_for<Inputs...>{})};
             },
             std::vector<at::Tensor>{inputs...})
      .front();
}

}  // namespace pharos::ml
