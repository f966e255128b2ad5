#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/bytes.hpp>

#include "library.hpp"

namespace pharos::ml::xgboost {

/// One of XGBoost's, with its functions. One thread at a time, but for predict() after settle().
class Booster {
 public:
  /// `matrices` are those that it will be trained with and measured by.
  static Result<Booster> make(const Library& library, std::span<const DMatrixHandle> matrices);
  Booster(Booster&& other) noexcept : library_{other.library_}, handle_{std::exchange(other.handle_, nullptr)} {}
  Booster& operator=(Booster&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Booster() {
    if (handle_ != nullptr) library_->free_booster(handle_);
  }

  Result<void> set(const std::string& name, const std::string& value);
  Result<void> train(std::uint64_t round, DMatrixHandle data);
  /// XGBoost's line of metrics.
  Result<std::string> measure(std::uint64_t round, DMatrixHandle data, const std::string& name);
  /// Until the next call.
  Result<std::span<const float>> predict(DMatrixHandle data);
  /// Rows of `columns`. XGBoost keeps the result for each thread, until its next call.
  Result<std::span<const float>> predict(std::span<const float> features, std::size_t columns) const;
  /// What it puts off until it is used first is done.
  Result<std::uint64_t> settle();

  /// "ubj" or "json".
  Result<Bytes> save(const char* format) const;
  Result<void> load(const Bytes& model);
  Result<std::uint64_t> rounds() const;
  /// Of the first rounds alone.
  Result<Booster> first(std::uint64_t rounds) const;

 private:
  Booster(const Library& library, BoosterHandle handle) : library_{&library}, handle_{handle} {}

  const Library* library_;
  BoosterHandle handle_;
};

/// What XGBoost has said on this thread since, which it would else print: warnings.
std::vector<std::string> take_warnings(const Library& library);

}  // namespace pharos::ml::xgboost
