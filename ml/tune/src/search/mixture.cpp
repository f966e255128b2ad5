#include "search/mixture.inc"

namespace pharos::ml {

void log_sums_plain(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
                    std::span<double> sums) {
  log_sums_here(weights, logs, terms, sums);
}

void log_sums(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
              std::span<double> sums) {
#ifdef __x86_64__
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (has) return log_sums_avx2(weights, logs, terms, sums);
#endif
  log_sums_plain(weights, logs, terms, sums);
}

}  // namespace pharos::ml
