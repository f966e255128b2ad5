#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/base/export.hpp>

/// Less memory for more time: what a part of a module has computed is not kept for backward, but computed once more.
///
///   for (auto& layer : *layers) x = checkpoint([&](const at::Tensor& in) { return layer->forward(in); }, x);
///
/// The part must do the same both times; what it draws by chance (dropout) is the same. What it captures must live
/// until backward. May be nested. Gradients that come through it come by backward() only, not by autograd::grad().
namespace pharos::ml {

PHAROS_API std::vector<at::Tensor> checkpoint(
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> part, const std::vector<at::Tensor>& inputs);

/// Of one tensor, or of several, into one.
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
