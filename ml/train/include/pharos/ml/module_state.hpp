#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>
#include <pharos/ml/state.hpp>

namespace torch::nn {
class Module;
}

/// What a training with libtorch goes on from, as a State:
///
///   ml::State state;
///   ml::add_to(state, *model);
///   ml::add_to(state, optimizer, *model);
///   ml::add_random_to(state);
///   state.add("position", position);
///   checkpoints.save(state, {.step = step});
///
/// What one process has saved, or ranks with Ddp, with ZeRO or with parameters divided among them, any of these loads:
/// names and numbers are the same. All that is added must outlive the state. Throws InvalidArgument for tensors of a
/// type that checkpoints have none of.
namespace pharos::ml {

class Ema;
class GradScaler;
class Optimizer;
class Sharded;

/// Parameters and buffers of a module of which each rank has all: "model.layers.0.weight". A tensor that the module
/// lists twice is there by its first name.
PHAROS_API void add_to(State& state, torch::nn::Module& module, const std::string& prefix = "model.");
/// What the optimizer keeps of parameters of that module: "optimizer.layers.0.weight.mean".
PHAROS_API void add_to(State& state, Optimizer& optimizer, const torch::nn::Module& module);

/// Of a module that is divided: this rank's part of each parameter, and buffers. Loading ends with refresh().
PHAROS_API void add_to(State& state, Sharded& sharded, torch::nn::Module& module);
PHAROS_API void add_to(State& state, Optimizer& optimizer, const Sharded& sharded);

/// "ema.layers.0.weight". Before it has been saved once it is loaded from the module's.
PHAROS_API void add_to(State& state, Ema& ema);
/// "scaler"
PHAROS_API void add_to(State& state, GradScaler& scaler);
/// libtorch's own random numbers, another sequence on each rank: "random".
PHAROS_API void add_random_to(State& state);

/// The array's numbers as a tensor, where they lie: they are not to be written to.
PHAROS_API at::Tensor tensor_of(const Array& array);
/// A copy.
PHAROS_API Array array_of(const at::Tensor& tensor);
/// Copies of a module's parameters and buffers, for write_safetensors().
PHAROS_API std::vector<NamedArray> arrays_of(const torch::nn::Module& module);
/// Takes numbers of the same names and shapes, as read_torch() and SafeTensors have them; of a type that may be another
/// one. Throws InvalidArgument with the first name that is missing, too many or of another shape; then nothing has
/// changed. How many batches a norm has seen may be missing, as in files of old versions of PyTorch.
PHAROS_API void load_arrays(torch::nn::Module& module, const std::vector<NamedArray>& arrays);

}  // namespace pharos::ml
