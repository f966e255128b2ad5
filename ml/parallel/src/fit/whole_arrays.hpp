#pragma once

#include <vector>

#include <pharos/ml/array.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/sharded.hpp>

namespace torch::nn {
class Module;
}

namespace pharos::ml {

/// The parameters and buffers of a divided module, put together from the slices of all ranks, in the type in which the
/// ranks keep them. All ranks call it together. Rank 0 gets all of them; the other ranks have one parameter at a time,
/// and get an empty list. Throws what fails between ranks.
std::vector<NamedArray> whole_arrays(const Sharded& sharded, const torch::nn::Module& module, Communicator& ranks);

}  // namespace pharos::ml
