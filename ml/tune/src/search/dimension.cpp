#include "search/dimension.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

#include "search/normal.hpp"

namespace pharos::ml {
namespace {

using DomainKind = Domain::Kind;

double real_of(const Value& value) {
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

}  // namespace

double Dimension::to_line(double number) const {
  return log ? std::log(number) : number;
}

double Dimension::from_line(double place) const {
  const double number = log ? std::exp(place) : place;
  const double near = kind == Kind::kSteps ? low + std::round((number - low) / step) * step : number;
  return std::clamp(near, low, high);
}

double Dimension::line_low() const {
  return to_line(low - step / 2);
}
double Dimension::line_high() const {
  return to_line(high + step / 2);
}

Dimension dimension_of(const Domain& domain) {
  switch (domain.kind) {
    case DomainKind::kNormal: return {};
    case DomainKind::kChoice: return {.kind = Dimension::Kind::kChoice, .choices = domain.choices.size()};
    case DomainKind::kReal:
    case DomainKind::kInteger:
      return {.kind = domain.step == 0 ? Dimension::Kind::kReal : Dimension::Kind::kSteps,
              .low = domain.low,
              .high = domain.high,
              .step = domain.step,
              .log = domain.log};
  }
  return {};
}

double number_of(const Domain& domain, const Value& value) {
  switch (domain.kind) {
    case DomainKind::kNormal: return normal_mass((real_of(value) - domain.low) / domain.high);
    case DomainKind::kChoice: {
      const auto found = std::find(domain.choices.begin(), domain.choices.end(), value);
      return static_cast<double>(found - domain.choices.begin());
    }
    case DomainKind::kReal:
    case DomainKind::kInteger: return real_of(value);
  }
  return 0;
}

Value value_of(const Domain& domain, double number) {
  switch (domain.kind) {
    case DomainKind::kNormal: return domain.low + domain.high * normal_quantile(std::clamp(number, 1e-16, 1 - 1e-16));
    case DomainKind::kChoice: return domain.choices[static_cast<std::size_t>(number)];
    case DomainKind::kReal: return number;
    case DomainKind::kInteger: return static_cast<std::int64_t>(std::llround(number));
  }
  return {};
}

}  // namespace pharos::ml
