#pragma once

/// The normal distribution with mean 0 and standard deviation 1. The functions are also exact far out in the tails.
/// Searchers call them, on any thread. The functions check no argument: a must be below b, and a share is from 0 to 1.
namespace pharos::ml {

/// Returns the probability of a number below x.
double normal_mass(double x);
/// Returns the x for which normal_mass(x) is `mass`, where 0 < mass < 1.
double normal_quantile(double mass);
/// Returns the logarithm of the probability of a number between a and b.
double log_normal_mass(double a, double b);
/// Returns the point between a and b below which this share of the probability between a and b lies.
double normal_quantile_between(double a, double b, double share);

}  // namespace pharos::ml
