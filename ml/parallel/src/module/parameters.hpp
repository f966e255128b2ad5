#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/communicator.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// A tensor of a module, which it keeps. A value.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The module's parameters or buffers. A tensor that the module lists several times is returned once, by its first
/// name.
std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

/// Compares the names, shapes and types of the tensors on all ranks, and whether they are trained. Throws
/// InvalidArgument on all ranks, with the first difference, if ranks differ. This function and those below are called
/// by all ranks together, on the thread that uses the communicator, and also throw what fails between ranks.
void check_alike(Communicator& ranks, const std::vector<NamedTensor>& tensors);

/// Throws InvalidArgument, on this rank only, unless `ranks` works in host memory and `data` in the memory in which all
/// tensors are. `example` shows how the caller's users pass two communicators.
void check_devices(const Communicator& ranks, const Communicator& data, std::span<const NamedTensor> tensors,
                   const std::string& example);

/// Runs `work` on all ranks. If it throws on one rank, all ranks throw once all have run it: a rank where `work` has
/// thrown throws the same, and the others throw an Exception with the number of the first such rank and its error.
/// Exceptions of libtorch count as kInternal there.
void on_all(Communicator& ranks, const std::function<void()>& work);

/// Compares the texts of all ranks line by line. Returns a description of the first line in which a rank differs from
/// rank 0, or nullopt if all texts are equal.
std::optional<std::string> first_difference(Communicator& ranks, const std::string& text);

/// Overwrites the tensors of all ranks with those of rank `root`.
void broadcast(Communicator& ranks, const std::vector<NamedTensor>& tensors, std::uint32_t root);

}  // namespace pharos::ml
