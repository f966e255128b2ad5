#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace pharos::ml {

/// One instance of one of the 24 functions of the black-box optimisation benchmark (Hansen, Finck, Ros and Auger,
/// 2009), on [-5, 5] in each dimension. The instances of a function have their minimum in different places.
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
