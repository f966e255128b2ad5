#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include <pharos/base/result.hpp>
#include <pharos/ml/xgboost.hpp>

#include "library.hpp"

namespace pharos::ml::xgboost {

/// Binned data: a QuantileDMatrix of XGBoost. XGBoost lets only the thread that has built a matrix use it. Owned by
/// that thread's Matrices, and by the trainings that use it. A Matrix keeps the numbers of its Data and its reference
/// alive, and its destructor frees XGBoost's memory.
class Matrix {
 public:
  /// Bins data. If there is a `reference`, the matrix that the model is trained with, its quantiles are used. Returns
  /// kInvalidArgument if the sizes of the data do not fit together, or with XGBoost's message.
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

/// The matrices that one thread keeps, the one used last first. Thread-local: only of_this_thread() makes one, and they
/// are freed when the thread ends.
class Matrices {
 public:
  static constexpr std::size_t kMax = 8;  // trainings whose matrices are kept: two each, with that of the held-out rows

  static Matrices& of_this_thread();

  /// Returns the matrix that is kept for these arguments, else builds one. A new matrix is kept, and the one that was
  /// used longest ago dropped, unless the data has numbers without an owner. Fails as Matrix::build() does.
  Result<std::shared_ptr<Matrix>> get(const Library& library, const Data& data, int bins, int threads,
                                      std::shared_ptr<Matrix> reference);
  std::uint64_t built() const { return built_; }
  void clear() { kept_.clear(); }

 private:
  std::list<std::shared_ptr<Matrix>> kept_;
  std::uint64_t built_ = 0;
};

}  // namespace pharos::ml::xgboost
