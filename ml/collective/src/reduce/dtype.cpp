#include <pharos/ml/dtype.hpp>

namespace pharos::ml {

std::string_view to_string(DType dtype) {
  constexpr std::string_view kNames[] = {"u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

std::string_view to_string(Reduction reduction) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max", "min"};
  return kNames[static_cast<std::size_t>(reduction)];
}

}  // namespace pharos::ml
