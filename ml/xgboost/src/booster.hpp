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

/// A model of XGBoost. Owns XGBoost's handle, which the destructor frees; a training or a Model owns the Booster. One
/// thread at a time may use it, except that after settle() several threads may predict rows at the same time. Functions
/// fail with kInvalidArgument and XGBoost's message. Only assignment and the destructor are for a Booster that was
/// moved from.
class Booster {
 public:
  /// `matrices` are the ones that the model will be trained with and measured on.
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
  /// Returns XGBoost's line of metrics, in which `data` is called `name`; see metrics_in().
  Result<std::string> measure(std::uint64_t round, DMatrixHandle data, const std::string& name);
  /// Predicts the rows of a matrix. XGBoost keeps the result until the next call of the same thread.
  Result<std::span<const float>> predict(DMatrixHandle data);
  /// Predicts rows of `columns` features. XGBoost keeps the result until the next call of the same thread.
  Result<std::span<const float>> predict(std::span<const float> features, std::size_t columns) const;
  /// Makes XGBoost do what it defers to the first use of a model. Returns the number of columns.
  Result<std::uint64_t> settle();

  /// `format` is "ubj" or "json".
  Result<Bytes> save(const char* format) const;
  Result<void> load(const Bytes& model);
  Result<std::uint64_t> rounds() const;
  /// Returns a model of the first rounds only.
  Result<Booster> first(std::uint64_t rounds) const;

 private:
  Booster(const Library& library, BoosterHandle handle) : library_{&library}, handle_{handle} {}

  const Library* library_;
  BoosterHandle handle_;
};

/// Returns XGBoost's warnings on this thread since the last call, at most 100. The first call on a thread makes XGBoost
/// pass its warnings on instead of printing them.
std::vector<std::string> take_warnings(const Library& library);

}  // namespace pharos::ml::xgboost
