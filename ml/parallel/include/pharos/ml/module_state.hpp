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

/// Describes a training with libtorch as a State, which checkpoints save and load:
///
///   ml::State state;
///   ml::add_to(state, *model);
///   ml::add_to(state, optimizer, *model);
///   ml::add_random_to(state);
///   state.add("position", position);
///   checkpoints.save(state, {.step = step});
///
/// Names and numbers are the same whether one process has saved the state, ranks with Ddp, or ranks with Sharded (ZeRO
/// or divided parameters). So each of these can load what any other has saved. All objects that are added must outlive
/// the state. Add them, and use the state, on the thread that trains. The add_to() functions throw InvalidArgument for
/// a tensor of a type that checkpoints do not support, and for a name that the state has already; what was added before
/// stays in the state.
namespace pharos::ml {

class Ema;
class GradScaler;
class Optimizer;
class Sharded;

/// Adds parameters and buffers of a module that each rank has whole, with names like "model.layers.0.weight". A tensor
/// that the module lists twice is added once, by its first name.
PHAROS_API void add_to(State& state, torch::nn::Module& module, const std::string& prefix = "model.");
/// Adds the state that the optimizer keeps for parameters of that module, with names like
/// "optimizer.layers.0.weight.mean". Throws InvalidArgument if it trains a parameter that the module does not have.
PHAROS_API void add_to(State& state, Optimizer& optimizer, const torch::nn::Module& module);

/// Adds a divided module: this rank's part of each parameter, and the buffers. Saving calls Sharded::check() first;
/// loading calls Sharded::refresh() at the end, which waits for all ranks. Both throw what those functions throw.
/// Throws InvalidArgument for a parameter that is not contiguous.
PHAROS_API void add_to(State& state, Sharded& sharded, torch::nn::Module& module);
/// Adds the state that an optimizer keeps for the parts of parameters that this rank has. Throws InvalidArgument if it
/// trains a tensor that is no part of `sharded`.
PHAROS_API void add_to(State& state, Optimizer& optimizer, const Sharded& sharded);

/// Adds the moving means, with names like "ema.layers.0.weight". From a checkpoint that has no means they are loaded
/// from the module's values.
PHAROS_API void add_to(State& state, Ema& ema);
/// Adds the moving means of this rank's parts, made with `sharded`.
PHAROS_API void add_to(State& state, Ema& ema, const Sharded& sharded);
/// Adds the state of the scaler as "scaler". Loading throws if the checkpoint's bytes are no such state.
PHAROS_API void add_to(State& state, GradScaler& scaler);
/// Adds the state of libtorch's random number generators as "random". Each rank has its own. Loading throws what
/// RandomState::from_bytes() and restore() throw.
PHAROS_API void add_random_to(State& state);

/// Returns a tensor over the array's memory, which the tensor keeps. Only an array whose rows do not lie densely is
/// copied. The tensor must not be written to.
PHAROS_API at::Tensor tensor_of(const Array& array);
/// A copy of the array on a GPU, made on the current stream; on the CPU, the same as above. If the array lies in the
/// object store, as a batch does that another actor has made, the GPU copies it from there, and the host goes on; see
/// pin_stored(). The array is kept until that is done and another such copy begins. Any thread. Throws what libtorch
/// throws.
PHAROS_API at::Tensor tensor_of(const Array& array, at::Device device);
/// Returns a copy of the tensor's numbers, in the memory of the host. Throws InvalidArgument for a type that arrays
/// cannot have.
PHAROS_API Array array_of(const at::Tensor& tensor);
/// Returns copies of a module's parameters and buffers, for write_safetensors(). Throws what array_of() throws.
PHAROS_API std::vector<NamedArray> arrays_of(const torch::nn::Module& module);
/// Copies arrays, such as those of read_torch() and SafeTensors, into the module's parameters and buffers of the same
/// names and shapes. Types may differ. Throws InvalidArgument with the name of an array that is missing, that the
/// module does not have, or that has another shape; the module is then unchanged. The number of batches that a norm has
/// seen may be missing, as in files of old versions of PyTorch.
PHAROS_API void load_arrays(torch::nn::Module& module, const std::vector<NamedArray>& arrays);

}  // namespace pharos::ml
