#include "reduce/kernels.inc"

namespace pharos::ml {

void reduce_plain(DType dtype, Reduction reduction, std::span<const std::byte* const> from,
                  std::span<std::byte* const> to, std::size_t elements) {
  reduce_here(dtype, reduction, from, to, elements);
}

void spread_plain(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes) {
  spread_here(from, to, bytes);
}

namespace {

bool has_avx2() {
#ifdef __x86_64__
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
#else
  return false;
#endif
}

}  // namespace

void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> from, std::span<std::byte* const> to,
            std::size_t elements) {
#ifdef __x86_64__
  if (has_avx2()) return reduce_avx2(dtype, reduction, from, to, elements);
#endif
  reduce_plain(dtype, reduction, from, to, elements);
}

void spread(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes) {
#ifdef __x86_64__
  if (has_avx2()) return spread_avx2(from, to, bytes);
#endif
  spread_plain(from, to, bytes);
}

namespace {

template <class T>
void divide_all(std::byte* data, std::size_t elements, std::size_t by) {
  using W = typename Wide<T>::Type;
  T* const all = elements_of<T>(data);
  for (std::size_t i = 0; i < elements; ++i) {
    all[i] = Wide<T>::store(static_cast<W>(Wide<T>::load(all[i]) / static_cast<W>(by)));
  }
}

}  // namespace

void shorten(const float* from, BFloat16* to, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) to[i] = to_bfloat16(from[i]);
}

void lengthen(const BFloat16* from, float* to, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) to[i] = to_float(from[i]);
}

void divide(DType dtype, std::byte* data, std::size_t elements, std::size_t by) {
  switch (dtype) {
    case DType::kU8: return divide_all<std::uint8_t>(data, elements, by);
    case DType::kI8: return divide_all<std::int8_t>(data, elements, by);
    case DType::kI32: return divide_all<std::int32_t>(data, elements, by);
    case DType::kI64: return divide_all<std::int64_t>(data, elements, by);
    case DType::kF16: return divide_all<Half>(data, elements, by);
    case DType::kBF16: return divide_all<BFloat16>(data, elements, by);
    case DType::kF32: return divide_all<float>(data, elements, by);
    case DType::kF64: return divide_all<double>(data, elements, by);
  }
}

}  // namespace pharos::ml
