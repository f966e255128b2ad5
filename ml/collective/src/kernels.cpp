#include "kernels.inc"

namespace pharos::ml {

void reduce_plain(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                  std::span<std::byte* const> to, std::size_t elements) {
  reduce_here(dtype, reduction, from, to, elements);
}

void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> from, std::span<std::byte* const> to,
            std::size_t elements) {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return reduce_avx2(dtype, reduction, from, to, elements);
#endif
  reduce_plain(dtype, reduction, from, to, elements);
}

}  // namespace pharos::ml
