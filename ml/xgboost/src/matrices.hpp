#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include <pharos/base/result.hpp>
#include <pharos/ml/xgboost.hpp>

#include "library.hpp"

namespace pharos::ml::xgboost {

/// Binned data: a QuantileDMatrix of XGBoost. XGBoost lets only the thread that has built a matrix use it.
class Matrix {
 public:
  /// Bins data. If there is a `reference`, the matrix that the model is trained with, its quantiles are used.
  static Result<std::shared_ptr<Matrix>> build(const Library& library, const Data& data, int bins, int threads,
                                               std::shared_ptr<Matrix> reference);
  Matrix(const Library& library, Data data, int bins, std::shared_ptr<Matrix> reference)
      : library_{library}, data_{std::move(data)}, bins_{bins}, reference_{std::move(reference)} {}
  Matrix(Matrix&&) = delete;
  ~Matrix();

  DMatrixHandle handle() const { return handle_; }
  const Data& data() const { return data_; }
  /// Returns whether this matrix was built from these arguments: the same numbers in the same place, and the same
  /// settings.
  bool is_of(const Data& data, int bins, const Matrix* reference) const;

 private:
  const Library& library_;
  Data data_;  // keeps the numbers in memory, because is_of() recognises them by their address
  int bins_;
  std::shared_ptr<Matrix> reference_;
  DMatrixHandle handle_ = nullptr;
};

/// The matrices that one thread keeps, the one used last first.
class Matrices {
 public:
  static constexpr std::size_t kMax = 8;  // trainings whose matrices are kept: two each, with that of the held-out rows

  static Matrices& of_this_thread();

  Result<std::shared_ptr<Matrix>> get(const Library& library, const Data& data, int bins, int threads,
                                      std::shared_ptr<Matrix> reference);
  std::uint64_t built() const { return built_; }
  void clear() { kept_.clear(); }

 private:
  std::list<std::shared_ptr<Matrix>> kept_;
  std::uint64_t built_ = 0;
};

}  // namespace pharos::ml::xgboost
