#include "reduce/kernels.inc"

namespace pharos::ml {

void reduce_avx2(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                 std::span<std::byte* const> to, std::size_t elements) {
  reduce_here(dtype, reduction, from, to, elements);
}

void spread_avx2(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes) {
  spread_here(from, to, bytes);
}

}  // namespace pharos::ml
