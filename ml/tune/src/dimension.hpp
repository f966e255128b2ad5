#pragma once

#include <cstddef>

#include <pharos/ml/space.hpp>

namespace pharos::ml {

/// A parameter as numbers: reals and whole ones as they are, normal ones by how much of them is below, choices by which
/// it is.
struct Dimension {
  enum class Kind : std::uint8_t { kReal, kSteps, kChoice };

  Kind kind = Kind::kReal;
  double low = 0;
  double high = 1;
  double step = 0;  ///< of kSteps
  bool log = false;
  std::size_t choices = 0;

  bool operator==(const Dimension&) const = default;

  // Where it is on the line that kernels lie on, and back. Steps have half of one beyond their ends.
  double to_line(double number) const;
  double from_line(double place) const;
  double line_low() const;
  double line_high() const;
};

Dimension dimension_of(const Domain& domain);
double number_of(const Domain& domain, const Value& value);
Value value_of(const Domain& domain, double number);

}  // namespace pharos::ml
