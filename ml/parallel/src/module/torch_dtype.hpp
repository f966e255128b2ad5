#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

/// Returns nullopt for types on which collectives do not work. The code of this library that sends or saves tensors
/// calls both functions here, on any thread.
inline std::optional<DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kByte: return DType::kU8;
    case at::kChar: return DType::kI8;
    case at::kInt: return DType::kI32;
    case at::kLong: return DType::kI64;
    case at::kHalf: return DType::kF16;
    case at::kBFloat16: return DType::kBF16;
    case at::kFloat: return DType::kF32;
    case at::kDouble: return DType::kF64;
    default: return std::nullopt;
  }
}

/// The bytes of a tensor whose elements lie without gaps, which is not checked. Valid as long as the tensor keeps its
/// memory. The bytes of a tensor on a GPU are memory of the GPU, which code on the CPU must not read or write.
inline std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

/// The reverse: a tensor of one dimension over memory of a device, which it does not own.
inline at::Tensor tensor_on(std::byte* memory, at::Device device, at::ScalarType type, std::int64_t elements) {
  return at::from_blob(memory, {elements}, at::TensorOptions{}.dtype(type).device(device));
}

}  // namespace pharos::ml
