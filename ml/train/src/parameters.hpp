#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <pharos/ml/communicator.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// A tensor of a module, once, however often and by what names the module lists it.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

/// Throws InvalidArgument on all ranks, with the first difference, unless they have the same ones: by name, shape,
/// type, and whether they are trained.
void check_alike(Communicator& ranks, const std::vector<NamedTensor>& tensors);

/// What `work` throws at one rank is thrown at all.
void on_all(Communicator& ranks, const std::function<void()>& work);

/// Each rank gives a text of lines: of the first rank that has another one than rank 0, where it begins to differ.
std::optional<std::string> first_difference(Communicator& ranks, const std::string& text);

/// All ranks' tensors are `root`'s from then on.
void broadcast(Communicator& ranks, const std::vector<NamedTensor>& tensors, std::uint32_t root);

}  // namespace pharos::ml
