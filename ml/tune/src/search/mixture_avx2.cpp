#include "search/mixture.inc"

#ifdef __x86_64__
namespace pharos::ml {

void log_sums_avx2(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
                   std::span<double> sums) {
  log_sums_here(weights, logs, terms, sums);
}

}  // namespace pharos::ml
#endif
