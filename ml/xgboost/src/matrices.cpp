#include "matrices.hpp"

#include <algorithm>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "array.hpp"

namespace pharos::ml::xgboost {
namespace {

/// The iterator from which XGBoost reads data when it builds a matrix. XGBoost makes several passes, each of one batch.
class Reading {
 public:
  static Result<std::unique_ptr<Reading>> of(const Library& library, const Data& data) {
    auto reading = std::make_unique<Reading>(library, data);
    PHAROS_TRY_VOID(library.check(library.create_proxy(&reading->proxy_), "making a proxy of data"));
    return reading;
  }
  Reading(const Library& library, const Data& data) : library_{library}, data_{data} {}
  Reading(Reading&&) = delete;
  ~Reading() {
    if (proxy_ != nullptr) library_.free_matrix(proxy_);
  }

  DMatrixHandle proxy() const { return proxy_; }
  /// Returns the error that occurred while XGBoost was reading, if there was one.
  Result<void> outcome() const { return outcome_; }

  static void reset(void* self) { static_cast<Reading*>(self)->is_read_ = false; }
  static int next(void* self) {
    auto& reading = *static_cast<Reading*>(self);
    if (std::exchange(reading.is_read_, true)) return 0;
    reading.outcome_ = reading.give();
    return reading.outcome_.ok() ? 1 : 0;
  }

 private:
  Result<void> give() {
    const auto dense = array_interface(data_.features.span(), data_.columns);
    PHAROS_TRY_VOID(library_.check(library_.set_proxy_rows(proxy_, dense.c_str()), "reading features"));
    PHAROS_TRY_VOID(give("label", data_.labels));
    if (!data_.weights.empty()) PHAROS_TRY_VOID(give("weight", data_.weights));
    if (data_.categories.empty()) return {};
    std::vector<const char*> types(data_.columns, "q");
    for (const std::uint32_t column : data_.categories) types[column] = "c";
    return library_.check(library_.set_texts(proxy_, "feature_type", types.data(), types.size()),
                          "saying which columns are categories");
  }
  Result<void> give(const char* field, const SharedSpan<float>& values) {
    const auto array = array_interface(values.span(), 0);
    return library_.check(library_.set_numbers(proxy_, field, array.c_str()), std::string{"reading "} + field + "s");
  }

  const Library& library_;
  const Data& data_;
  DMatrixHandle proxy_ = nullptr;
  bool is_read_ = false;
  Result<void> outcome_{};
};

Error refusal(std::string message, std::string remedy) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

Result<void> check(const Data& data) {
  const std::string columns = std::to_string(data.columns);
  if (data.columns == 0 || data.features.empty()) {
    return refusal("the data has no rows or no columns", "Give it features, and say how many columns they have.");
  }
  if (data.features.size() % data.columns != 0) {
    return refusal("the data has " + std::to_string(data.features.size()) +
                       " features, which is not a multiple of its " + columns + " columns",
                   "Give each row the same number of features.");
  }
  const std::string rows = std::to_string(data.rows());
  if (data.labels.size() != data.rows()) {
    return refusal("the data has " + rows + " rows and " + std::to_string(data.labels.size()) + " labels",
                   "Give each row one label.");
  }
  if (!data.weights.empty() && data.weights.size() != data.rows()) {
    return refusal("the data has " + rows + " rows and " + std::to_string(data.weights.size()) + " weights",
                   "Give one weight for each row, or no weights.");
  }
  for (const std::uint32_t column : data.categories) {
    if (column >= data.columns) {
      return refusal(
          "column " + std::to_string(column) + " is named as categorical, but there are only " + columns + " columns",
          "Columns count from 0.");
    }
  }
  return {};
}

bool is_owned(const SharedSpan<float>& span) {
  return span.empty() || span.owner() != nullptr;
}

bool lie_alike(const SharedSpan<float>& a, const SharedSpan<float>& b) {
  return a.data() == b.data() && a.size() == b.size();
}

}  // namespace

Result<std::shared_ptr<Matrix>> Matrix::build(const Library& library, const Data& data, int bins, int threads,
                                              std::shared_ptr<Matrix> reference) {
  PHAROS_TRY_VOID(check(data));
  if (reference != nullptr && reference->data_.columns != data.columns) {
    return refusal("the held-out rows have " + std::to_string(data.columns) + " columns, and the data has " +
                       std::to_string(reference->data_.columns),
                   "Give both the same.");
  }
  auto matrix = std::make_shared<Matrix>(library, data, bins, std::move(reference));
  PHAROS_TRY(const auto reading, Reading::of(library, matrix->data_));
  const std::string config =
      R"({"missing": NaN, "max_bin": )" + std::to_string(bins) + R"(, "nthread": )" + std::to_string(threads) + "}";
  DMatrixHandle const quantiles_of = matrix->reference_ == nullptr ? nullptr : matrix->reference_->handle_;
  const auto built = library.check(library.create_matrix(reading.get(), reading->proxy(), quantiles_of, &Reading::reset,
                                                         &Reading::next, config.c_str(), &matrix->handle_),
                                   "binning data");
  PHAROS_TRY_VOID(reading->outcome());
  PHAROS_TRY_VOID(built);
  return matrix;
}

Matrix::~Matrix() {
  if (handle_ != nullptr) library_.free_matrix(handle_);
}

bool Matrix::is_of(const Data& data, int bins, const Matrix* reference) const {
  return bins_ == bins && reference_.get() == reference && data_.columns == data.columns &&
         lie_alike(data_.features, data.features) && lie_alike(data_.labels, data.labels) &&
         lie_alike(data_.weights, data.weights) && data_.categories == data.categories;
}

Matrices& Matrices::of_this_thread() {
  thread_local Matrices matrices;
  return matrices;
}

Result<std::shared_ptr<Matrix>> Matrices::get(const Library& library, const Data& data, int bins, int threads,
                                              std::shared_ptr<Matrix> reference) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const auto& each) { return each->is_of(data, bins, reference.get()); });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  PHAROS_TRY(auto matrix, Matrix::build(library, data, bins, threads, std::move(reference)));
  ++built_;
  // Numbers without an owner may be freed, and other numbers may lie at the same address at the next call.
  if (!is_owned(data.features) || !is_owned(data.labels) || !is_owned(data.weights)) return matrix;
  kept_.push_front(matrix);
  if (kept_.size() > 2 * kMax) kept_.pop_back();
  return matrix;
}

std::uint64_t matrices_built() {
  return Matrices::of_this_thread().built();
}
void drop_matrices() {
  Matrices::of_this_thread().clear();
}

Data Data::slice(std::size_t first, std::size_t last) const {
  if (first > last || last > rows()) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "rows " + std::to_string(first) + " to " + std::to_string(last) +
                          " (not included) were asked for, and the number of rows is " + std::to_string(rows()),
                      "Ask for rows that the data has."});
  }
  const auto part = [&](const SharedSpan<float>& whole, std::size_t wide) {
    if (whole.empty()) return whole;
    return SharedSpan<float>{whole.owner(), whole.span().subspan(first * wide, (last - first) * wide)};
  };
  return {.columns = columns,
          .features = part(features, columns),
          .labels = part(labels, 1),
          .weights = part(weights, 1),
          .categories = categories};
}

}  // namespace pharos::ml::xgboost
