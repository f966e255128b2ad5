#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/xgboost.hpp>

namespace pharos::ml::xgboost {

// The part of XGBoost's C interface that is used here, as in all versions since 1.7.
using DMatrixHandle = void*;
using BoosterHandle = void*;
using ResetCallback = void(void* iterator);
using NextCallback = int(void* iterator);

/// The functions of the XGBoost that this process has loaded. Each function except version(), last_error() and OpenMP's
/// returns 0 if it has succeeded; check() makes an error of any other status. library() owns the one of this process
/// until the process ends; its file is never unloaded.
struct Library {
  void (*version)(int* major, int* minor, int* patch) = nullptr;
  const char* (*last_error)() = nullptr;
  int (*register_log)(void (*callback)(const char* line)) = nullptr;

  int (*create_proxy)(DMatrixHandle* out) = nullptr;
  int (*set_proxy_rows)(DMatrixHandle proxy, const char* array) = nullptr;
  int (*create_matrix)(void* iterator, DMatrixHandle proxy, DMatrixHandle reference, ResetCallback* reset,
                       NextCallback* next, const char* config, DMatrixHandle* out) = nullptr;
  int (*set_numbers)(DMatrixHandle matrix, const char* field, const char* array) = nullptr;
  int (*set_texts)(DMatrixHandle matrix, const char* field, const char** values, std::uint64_t size) = nullptr;
  int (*free_matrix)(DMatrixHandle matrix) = nullptr;

  int (*create_booster)(const DMatrixHandle* matrices, std::uint64_t size, BoosterHandle* out) = nullptr;
  int (*free_booster)(BoosterHandle booster) = nullptr;
  int (*set_parameter)(BoosterHandle booster, const char* name, const char* value) = nullptr;
  int (*train_round)(BoosterHandle booster, int round, DMatrixHandle data) = nullptr;
  int (*measure_round)(BoosterHandle booster, int round, DMatrixHandle* matrices, const char** names,
                       std::uint64_t size, const char** out) = nullptr;
  int (*predict_matrix)(BoosterHandle booster, DMatrixHandle matrix, const char* config, const std::uint64_t** shape,
                        std::uint64_t* dimensions, const float** out) = nullptr;
  int (*predict_rows)(BoosterHandle booster, const char* array, const char* config, DMatrixHandle proxy,
                      const std::uint64_t** shape, std::uint64_t* dimensions, const float** out) = nullptr;
  int (*save_model)(BoosterHandle booster, const char* config, std::uint64_t* size, const char** out) = nullptr;
  int (*load_model)(BoosterHandle booster, const void* model, std::uint64_t size) = nullptr;
  int (*count_rounds)(BoosterHandle booster, int* out) = nullptr;
  int (*count_columns)(BoosterHandle booster, std::uint64_t* out) = nullptr;
  int (*slice_rounds)(BoosterHandle booster, int begin, int end, int step, BoosterHandle* out) = nullptr;

  // Functions of the OpenMP that XGBoost uses; they work on the calling thread. Null if that OpenMP lacks these names.
  int (*openmp_threads)() = nullptr;
  void (*set_openmp_threads)(int threads) = nullptr;

  Installed installed{};

  /// Returns kInvalidArgument with XGBoost's message unless the status is 0. Must be called on the thread that called
  /// XGBoost, because XGBoost keeps its last error for each thread.
  Result<void> check(int status, std::string_view attempted) const;
};

/// Limits the number of OpenMP threads of the calling thread, and restores it at the end of its scope, which must be on
/// the same thread. XGBoost uses that number where it ignores `nthread`, for example when it reads labels. Has no
/// effect if XGBoost's OpenMP lacks the functions for this.
class ThreadLimit {
 public:
  explicit ThreadLimit(const Library& library)
      : library_{library}, before_{library.openmp_threads == nullptr ? 0 : library.openmp_threads()} {}
  ThreadLimit(ThreadLimit&&) = delete;
  ~ThreadLimit() { set(before_); }

  /// 0 leaves the number as it is.
  void set(int threads) {
    if (threads > 0 && before_ != 0 && library_.set_openmp_threads != nullptr) library_.set_openmp_threads(threads);
  }

 private:
  const Library& library_;
  int before_;
};

/// Loads the first file that can be loaded from these places. Fails with kNotFound if there is none, and with
/// kUnsupported if that file is too old or no XGBoost; places behind it are not tried then.
Result<Library> load(const std::vector<std::string>& places);
/// Returns the library of this process, and loads it at the first call. Fails as load() does; the next call then looks
/// again. Any thread.
Result<const Library*> library();

/// Returns the text of XGBoost's message, without the time, the place in XGBoost's source, and the stack trace.
std::string readable(std::string_view said);

}  // namespace pharos::ml::xgboost
