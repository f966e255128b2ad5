#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace pharos::ml {

/// One of the 24 functions of the black-box optimisation benchmark (Hansen, Finck, Ros and Auger, 2009), on [-5, 5] in
/// each dimension, and one of its instances, which have their least value elsewhere.
class Bbob {
 public:
  Bbob(int function, std::uint32_t instance, std::size_t dimensions);
  Bbob(Bbob&&) = delete;
  ~Bbob();

  double operator()(std::span<const double> x) const;
  double least() const;

 private:
  struct Instance;
  const std::unique_ptr<const Instance> its_;
};

}  // namespace pharos::ml
