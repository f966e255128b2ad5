#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/passes.hpp>

#include "fit/at_work.hpp"
#include "fit/choice.hpp"
#include "fit/fit_model.hpp"
#include "fit/precision.hpp"
#include "fit/validation.hpp"

namespace pharos::ml {
namespace {

constexpr std::string_view kValidation = "validation_";

/// The rows of all ranks, in the order of the data. Owned by a pass; the rank's thread. Rank 0 keeps all rows; the
/// others keep none.
class GatheredRows {
 public:
  GatheredRows(Communicator& ranks, std::uint64_t samples) : ranks_{ranks}, samples_{samples} {}

  /// All ranks call it with their rows of the same batch. A rank without samples gives one row that does not count.
  void add(const at::Tensor& rows, const Batch& batch) {
    if (given_ == 0) agree_on(rows);
    check(rows, batch);
    const std::size_t most = (batch.samples_of_all + ranks_.size() - 1) / ranks_.size();
    std::vector<std::byte> own(most * row_bytes_);
    std::vector<std::byte> all(own.size() * ranks_.size());
    std::memcpy(own.data(), rows.const_data_ptr(), batch.samples * row_bytes_);
    ranks_.all_gather(std::span<const std::uint8_t>{reinterpret_cast<const std::uint8_t*>(own.data()), own.size()},
                      std::span{reinterpret_cast<std::uint8_t*>(all.data()), all.size()});
    // Sample number `given_ + i` of the data is row `i / size` of rank `i % size`: see Loader.
    auto* const to = ranks_.rank() == 0 ? static_cast<std::byte*>(rows_.mutable_data_ptr()) : nullptr;
    for (std::size_t i = 0; to != nullptr && i < batch.samples_of_all; ++i) {
      const std::size_t place = (i % ranks_.size()) * most + i / ranks_.size();
      std::memcpy(to + (given_ + i) * row_bytes_, all.data() + place * row_bytes_, row_bytes_);
    }
    given_ += batch.samples_of_all;
  }
  /// At rank 0, and there only.
  Array take() const { return array_of(rows_); }

 private:
  /// All ranks must have rows of one type and shape: those of rank 0.
  void agree_on(const at::Tensor& rows) {
    constexpr std::size_t kDimensionsMax = 16;
    std::vector<std::int64_t> own(kDimensionsMax + 2);
    own[0] = rows.dim() == 0 || rows.dim() > static_cast<std::int64_t>(kDimensionsMax) ? -1 : rows.dim();
    own[1] = static_cast<std::int64_t>(rows.scalar_type());
    if (own[0] > 0) std::copy_n(rows.sizes().begin() + 1, rows.dim() - 1, own.begin() + 2);
    std::vector<std::int64_t> all(own.size() * ranks_.size());
    ranks_.all_gather(std::span<const std::int64_t>{own}, std::span{all});
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * own.size());
      if (own[0] > 0 && std::equal(own.begin(), own.end(), begin)) continue;
      throw_error(Error{ErrorCode::kInvalidArgument,
                        "the predictions of rank " + std::to_string(rank) +
                            " differ in type or shape from those of "
                            "rank " +
                            std::to_string(ranks_.rank()) + ", or are no rows",
                        "Return a tensor with one row for each sample from predict_step()."});
    }
    row_shape_ = rows.sizes().slice(1).vec();
    type_ = rows.scalar_type();
    row_bytes_ = rows.element_size();
    for (const std::int64_t length : row_shape_) row_bytes_ *= static_cast<std::size_t>(length);
    if (ranks_.rank() != 0) return;
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(samples_)};
    shape.insert(shape.end(), row_shape_.begin(), row_shape_.end());
    rows_ = at::empty(shape, at::TensorOptions{type_});
  }
  void check(const at::Tensor& rows, const Batch& batch) const {
    const auto wanted = static_cast<std::int64_t>(std::max<std::size_t>(batch.samples, 1));
    const bool fits = rows.dim() > 0 && rows.size(0) == wanted && rows.scalar_type() == type_ &&
                      rows.sizes().slice(1).equals(row_shape_);
    if (fits) return;
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "predict_step() has returned " + std::to_string(rows.dim() > 0 ? rows.size(0) : 0) +
                          " rows for a batch of " + std::to_string(wanted) +
                          " samples, or rows of another type or shape than before",
                      "Return one row for each sample."});
  }

  Communicator& ranks_;
  const std::uint64_t samples_;
  std::uint64_t given_ = 0;  // samples
  std::vector<std::int64_t> row_shape_;
  at::ScalarType type_{};
  std::size_t row_bytes_ = 0;
  at::Tensor rows_;
};

/// Calls `work` while the learner is at work with this model, on all ranks.
template <class Work>
void with_model(TrainContext& context, Learner& learner, const FitOptions& options,
                const std::vector<NamedArray>& arrays, std::optional<DiskBacked>& disk, const Work& work) {
  LearnerAtWork at_work{context, learner};
  try {
    load_arrays(learner.module(), arrays);
    at_work.move_to_device();
    // The optimizer does not matter. The learner's own might count on the steps of a training.
    const ChosenStrategy chosen = chosen_strategy(context, learner, {.settings = decaying_matrices(0)}, options);
    const auto model = chosen.strategy.make_model(learner, context.communicator(), options);
    disk.reset();
    work(at_work.logged());
  } catch (const c10::OutOfMemoryError& error) {
    throw_error(no_room_on(learner.device(), error.what_without_backtrace()));
  }
}

[[noreturn]] void throw_no_data(const std::string& what) {
  throw_error(Error{ErrorCode::kInvalidArgument, "the learner has no " + what + " data",
                    "Return them from its " + what + "_data()."});
}

[[noreturn]] void throw_interrupted() {
  throw_error(Error{ErrorCode::kCancelled, "the pass was interrupted before it had a result"});
}

}  // namespace

namespace detail {

TrainerOptions options_of_pass(TrainerOptions options, const std::string& what) {
  options.name += " " + what;
  options.folder.clear();
  options.save_every = 0;
  options.keep_best = 0;
  options.callbacks.clear();
  options.progress = false;  // it counts steps, of which a pass has none
  if (options.metric.starts_with(kValidation)) options.metric.erase(0, kValidation.size());
  if (what == "test" && !options.metric.starts_with("test_")) options.metric.insert(0, "test_");
  return options;
}

void test(TrainContext& context, Learner& learner, const FitOptions& options, const std::vector<NamedArray>& model,
          std::optional<DiskBacked>& disk) {
  with_model(context, learner, options, model, disk, [&](LoggedMeans& logged) {
    Validation pass{context, learner, options, Pass::test(learner), logged};
    if (!pass.has_data()) throw_no_data("test");
    context.report(pass.run());
  });
}

void predict(TrainContext& context, Learner& learner, const FitOptions& options, const std::vector<NamedArray>& model,
             std::optional<DiskBacked>& disk) {
  with_model(context, learner, options, model, disk, [&](LoggedMeans&) {
    const DatasetPtr data = learner.prediction_data();
    if (data == nullptr) throw_no_data("prediction");
    const at::NoGradGuard no_grad;
    learner.module().eval();
    Loader loader{data, loading_of_pass(context, learner, options, *data, "prediction")};
    GatheredRows rows{context.communicator(), data->size()};
    while (const auto batch = loader.next()) {
      const auto autocast = autocast_of(learner.device(), options);
      rows.add(learner.predict_step(*batch).to(at::kCPU).contiguous(), *batch);
    }
    if (context.rank() == 0) context.model().push_back({"predictions", rows.take()});
  });
}

Metrics tested_of(const TrainResult& result) {
  if (result.reports.empty()) throw_interrupted();
  return result.reports.back().metrics;
}

Array predicted_of(const TrainResult& result) {
  if (result.model.empty()) throw_interrupted();
  return result.model.front().array;
}

}  // namespace detail
}  // namespace pharos::ml
