#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include <pharos/base/result.hpp>
#include <pharos/ml/xgboost.hpp>

#include "library.hpp"

namespace pharos::ml::xgboost {

/// Binned data. XGBoost lets only the thread that has made one use it.
class Matrix {
 public:
  /// With the quantiles of `reference`, where there is one: of what a model is trained with.
  static Result<std::shared_ptr<Matrix>> build(const Library& library, const Data& data, int bins, int threads,
                                               std::shared_ptr<Matrix> reference);
  Matrix(const Library& library, Data data, int bins, std::shared_ptr<Matrix> reference)
      : library_{library}, data_{std::move(data)}, bins_{bins}, reference_{std::move(reference)} {}
  Matrix(Matrix&&) = delete;
  ~Matrix();

  DMatrixHandle handle() const { return handle_; }
  const Data& data() const { return data_; }
  /// It was, or would be, built of the same.
  bool is_of(const Data& data, int bins, const Matrix* reference) const;

 private:
  const Library& library_;
  Data data_;  // keeps it where it is: that it lies there is what it is known by
  int bins_;
  std::shared_ptr<Matrix> reference_;
  DMatrixHandle handle_ = nullptr;
};

/// Those of one thread, the latest used first.
class Matrices {
 public:
  static constexpr std::size_t kMax = 8;  // that others train with; of each as many that they are measured by

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
