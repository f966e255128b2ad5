#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pharos::ml {

/// The numbers that one dimension adds to the logarithm of each kernel's density at one point. A kernel is one
/// component of a mixture; the arrays have one element for each kernel, and belong to the caller.
struct Term {
  enum class Kind : std::uint8_t {
    kNormal,  ///< -(number * sharpness - scaled)^2 / 2: `scaled` is a mean times its sharpness
    kGiven,   ///< given[kernel]
    kChoice,  ///< `hit` if the kernel's mean is `number`, else `miss`
  };

  Kind kind = Kind::kNormal;
  const double* means = nullptr;
  const double* sharpness = nullptr;
  const double* scaled = nullptr;
  const double* given = nullptr;
  double number = 0;
  double hit = 0;
  double miss = 0;
};

/// Computes the logarithm of a mixture's density at several points, one of `sums` for each point: the logarithm of the
/// weighted sum of the kernels' densities. A kernel's density is e to the power of its `logs` plus its terms. `terms`
/// has the terms of the first point, then those of the second point, and so on; each point has as many, one for each
/// dimension in the same order. `weights` and `logs` have one element for each kernel. No size is checked. The
/// logarithm is minus infinity at a point where every density is zero.
void log_sums(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
              std::span<double> sums);

// log_sums() for any machine, and for a machine with AVX2 and FMA, on which alone the second one may be called. Both
// give the same bits. Parzen calls log_sums(). The functions keep nothing, and any thread may call them.
void log_sums_plain(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
                    std::span<double> sums);
#ifdef __x86_64__
void log_sums_avx2(std::span<const double> weights, std::span<const double> logs, std::span<const Term> terms,
                   std::span<double> sums);
#endif

}  // namespace pharos::ml
