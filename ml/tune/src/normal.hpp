#pragma once

/// The normal distribution of mean 0 and deviation 1, exact far out, too.
namespace pharos::ml {

/// How much of it is below x.
double normal_mass(double x);
/// Below which x there is so much of it: for 0 < mass < 1.
double normal_quantile(double mass);
/// The logarithm of how much is between a and b.
double log_normal_mass(double a, double b);
/// Where, between a and b, that share of what is between them lies below.
double normal_quantile_between(double a, double b, double share);

}  // namespace pharos::ml
