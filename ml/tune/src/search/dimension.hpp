#pragma once

#include <cstddef>

#include <pharos/ml/space.hpp>

namespace pharos::ml {

/// A parameter as a numeric dimension. Reals and integers are the numbers that they are, a normal value is its quantile
/// from 0 to 1, and a choice is its index. A value. The functions of this header are pure, and check nothing.
struct Dimension {
  enum class Kind : std::uint8_t { kReal, kSteps, kChoice };

  Kind kind = Kind::kReal;
  double low = 0;
  double high = 1;
  double step = 0;  ///< kSteps only
  bool log = false;
  std::size_t choices = 0;

  bool operator==(const Dimension&) const = default;

  // The line on which kernels lie: the number, or its logarithm. With steps, the line is half a step longer at both
  // ends.
  double to_line(double number) const;
  double from_line(double place) const;
  double line_low() const;
  double line_high() const;
};

Dimension dimension_of(const Domain& domain);
/// Converts a value of the domain into the number of its dimension. For a value that the domain does not contain, the
/// number may be outside of the dimension, and a value of another type may throw std::bad_variant_access.
double number_of(const Domain& domain, const Value& value);
/// Converts a number of the domain's dimension into a value. The number of a choice must be one of its indices.
Value value_of(const Domain& domain, double number);

}  // namespace pharos::ml
