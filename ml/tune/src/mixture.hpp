#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos::ml {

/// What a dimension adds to the logarithm of each kernel's density at a point.
struct Term {
  enum class Kind : std::uint8_t {
    kNormal,  ///< -((number - means) * sharpness)^2 / 2
    kGiven,   ///< given
    kChoice,  ///< hit where means is number, else miss
  };

  Kind kind = Kind::kNormal;
  const double* means = nullptr;
  const double* sharpness = nullptr;
  const double* given = nullptr;
  double number = 0;
  double hit = 0;
  double miss = 0;
};

/// For each point, the logarithm of the weighted sum of all kernels' densities: `sums`, one for each. A kernel's is the
/// exponential of `logs` and of what the point's terms add; all points have terms of the same kernels, in one order.
void log_sums(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
              std::span<double> sums);

// The same with what the machine has, and with what every machine has.
void log_sums_plain(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
                    std::span<double> sums);
#ifdef __x86_64__
void log_sums_avx2(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
                   std::span<double> sums);
#endif

}  // namespace pharos::ml
