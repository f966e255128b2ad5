#include "fit/whole_arrays.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include <pharos/ml/module_state.hpp>

#include "module/parameters.hpp"

namespace pharos::ml {
namespace {

using Slices = std::unordered_map<std::string, std::vector<Array>>;

/// The type in which the ranks keep each parameter. A rank may have no slice of one.
std::vector<std::int64_t> types_of(const std::vector<NamedTensor>& parameters, const Slices& slices,
                                   Communicator& ranks) {
  std::vector<std::int64_t> types;
  for (const NamedTensor& each : parameters) {
    const auto found = slices.find(each.name);
    types.push_back(found == slices.end() ? -1 : static_cast<std::int64_t>(found->second[0].dtype()));
  }
  ranks.all_reduce(std::span{types}, Reduction::kMax);
  return types;
}

}  // namespace

std::vector<NamedArray> whole_arrays(const Sharded& sharded, const torch::nn::Module& module, Communicator& ranks) {
  const std::vector<NamedTensor> parameters = parameters_of(module);
  Slices slices;
  std::unordered_map<std::string, std::vector<std::int64_t>> begins;
  for (const Sharded::Slice& each : sharded.slices()) {
    slices[each.name].push_back(array_of(each.values));
    begins[each.name].push_back(each.begin);
  }
  const std::vector<std::int64_t> types = types_of(parameters, slices, ranks);
  std::vector<NamedArray> arrays;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    if (types[i] < 0) {  // it has no elements, so no rank has a slice of it
      arrays.push_back({name, array_of(tensor)});
      continue;
    }
    const auto dtype = static_cast<DType>(types[i]);
    // Each rank adds its part to zeros.
    std::vector<std::byte> whole(static_cast<std::size_t>(tensor.numel()) * size_of(dtype));
    for (std::size_t k = 0; k < slices[name].size(); ++k) {
      const Array& part = slices[name][k];
      std::memcpy(whole.data() + static_cast<std::size_t>(begins[name][k]) * size_of(dtype), part.bytes().data(),
                  part.bytes().size());
    }
    ranks.begin_all_reduce(dtype, whole).wait();
    if (ranks.rank() == 0) arrays.push_back({name, Array{dtype, tensor.sizes().vec(), Bytes{std::move(whole)}}});
  }
  if (ranks.rank() != 0) return {};
  for (const NamedTensor& each : buffers_of(module)) arrays.push_back({each.name, array_of(each.tensor)});
  return arrays;
}

}  // namespace pharos::ml
