#include "parallel/power_sgd.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include <pharos/actors/exceptions.hpp>

#include "module/torch_dtype.hpp"

namespace pharos::ml {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr double kNothing = 1e-5;  // a row counts as zeros if this share of its length or less is left

/// A gradient M of n rows and m columns, for which P and Q are sent: a few rows of n and of m numbers. A step begins
/// with the Q of the step before. The part of M that P and Q do not express is the error; it is added to the next
/// gradient.
struct Matrix {
  std::size_t parameter;
  at::Tensor gradient;      // a view of its bucket
  std::size_t p_place;      // offset in the memory that is sent, in bytes
  std::size_t q_place = 0;  // the same for Q
  at::Tensor p{};
  at::Tensor q{};
  at::Tensor error{};
  at::Tensor random{};  // on a device: what rows of zeros in Q are replaced by
};

/// Bytes of a bucket that are sent unchanged: their offset in the bucket, and their offset in the memory that is sent.
struct Plain {
  std::size_t from;
  std::size_t to;
  std::size_t bytes;
};

/// A range of the memory that is sent, in bytes.
struct Range {
  std::size_t begin = 0;
  std::size_t size = 0;
};

struct Plan {
  std::vector<Matrix> matrices{};
  std::vector<Plain> plain{};
  Range first{};   // sent by the first operation: the plain bytes and each P
  Range second{};  // sent by the second operation: each Q
};

/// The gradient as a matrix whose rows are the entries of its outermost dimension in memory.
at::Tensor matrix_of(const at::Tensor& gradient) {
  if (gradient.dim() == 0) return gradient.view({1, 1});
  const auto strides = gradient.strides();
  const auto outermost = std::max_element(strides.begin(), strides.end()) - strides.begin();
  const std::int64_t rows = std::max<std::int64_t>(gradient.size(outermost), 1);
  return gradient.as_strided({rows, gradient.numel() / rows}, {gradient.numel() / rows, 1});
}

template <class Real>
std::span<Real> row_of(const at::Tensor& matrix, std::int64_t row) {
  return {matrix.data_ptr<Real>() + row * matrix.size(1), static_cast<std::size_t>(matrix.size(1))};
}

template <class Real>
double product(std::span<const Real> a, std::span<const Real> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Makes the rows orthogonal and of length 1 (Gram-Schmidt). A row that is nearly a linear combination of those before
/// it becomes zeros. Each row is orthogonalised twice, because the rounding of large parts leaves a rest the first
/// time.
template <class Real>
void straighten(const at::Tensor& matrix) {
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    const std::span<Real> row = row_of<Real>(matrix, i);
    const double before = std::sqrt(product<Real>(row, row));
    for (int time = 0; time < 2; ++time) {
      for (std::int64_t j = 0; j < i; ++j) {
        const std::span<Real> other = row_of<Real>(matrix, j);
        const auto part = static_cast<Real>(product<Real>(row, other));
        for (std::size_t k = 0; k < row.size(); ++k) row[k] -= part * other[k];
      }
    }
    const double length = std::sqrt(product<Real>(row, row));
    const double factor = length > kNothing * before ? 1 / length : 0;
    for (Real& each : row) each = static_cast<Real>(each * factor);
  }
}

/// The same on a device, without reading numbers back from it.
void straighten_on_device(const at::Tensor& matrix) {
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    const at::Tensor row = matrix[i];
    const at::Tensor before = row.norm();
    for (int time = 0; time < 2 && i > 0; ++time) {
      const at::Tensor others = matrix.narrow(0, 0, i);
      row.sub_(at::mv(others.t(), at::mv(others, row)));
    }
    const at::Tensor length = row.norm();
    row.mul_(at::where(length > kNothing * before, length.reciprocal(), at::zeros_like(length)));
  }
}

void straighten(const at::Tensor& matrix) {
  if (!matrix.is_cpu()) return straighten_on_device(matrix);
  if (matrix.scalar_type() == at::kDouble) return straighten<double>(matrix);
  straighten<float>(matrix);
}

void mix(std::uint64_t& seed) {
  seed = seed * 6364136223846793005 + 1442695040888963407;
}

/// Fills the row with random numbers from -1 to 1, which are the same on all ranks.
void fill_at_random(at::Tensor row, std::uint64_t seed) {
  std::vector<double> values(static_cast<std::size_t>(row.numel()));
  for (double& each : values) {
    mix(seed);
    each = static_cast<double>(seed >> 11) * 0x1p-52 - 1;
  }
  row.copy_(at::from_blob(values.data(), row.sizes(), at::kDouble));
}

// P is the mean of Q M^T over the ranks, with its rows made orthogonal. Q is then the mean of P M over the ranks, and
// P^T Q is close to the mean of M (Vogels, Karimireddy and Jaggi, 2019).
//
// All ranks must begin operations in the same order. So the second operation of a bucket is always begun right before
// the first operation of the next bucket, and not when a rank happens to be ready for it.
class PowerSgdExchange final : public Exchange {
 public:
  PowerSgdExchange(Communicator& ranks, Buckets& buckets, const PowerSgd& options, std::uint64_t steps)
      : ranks_{ranks}, buckets_{buckets}, options_{options}, steps_{steps} {
    if (options.rank == 0) {
      throw_error(Error{ErrorCode::kInvalidArgument, "PowerSgd::rank is 0", "Set PowerSgd::rank to 1 or more."});
    }
    options_.exact_steps = std::max<std::uint64_t>(options.exact_steps, 1);
    for (std::size_t b = 0; b < buckets.size(); ++b) plans_.push_back(plan(buckets[b]));
    memory_.emplace(ranks.allocate<std::byte>(bytes_));
    for (Plan& plan : plans_) {
      for (Matrix& each : plan.matrices) place(each);
    }
  }

  void begin(const Bucket& bucket) override {
    begin_second_ones();
    if (buckets_.number_of(bucket) == 0) ++steps_;
    Plan& plan = plan_of(bucket);
    if (is_exact(plan)) {
      under_way_.push_back({Stage::kLast, bucket, reduce(bucket, buckets_.bytes_of(bucket))});
      return;
    }
    for (const Plain& each : plan.plain) copy(bytes_in(bucket) + each.from, sent() + each.to, each.bytes);
    for (Matrix& each : plan.matrices) {
      each.gradient.add_(each.error);
      at::mm_out(each.p, each.q, each.gradient.t());
    }
    under_way_.push_back({Stage::kFirst, bucket, reduce(bucket, at(plan.first))});
  }
  void advance() override {
    // take() needs the marks of all ranks. Those of ranks on devices are shared when the backward has ended.
    if (!buckets_.device().is_cpu()) return;
    while (!under_way_.empty() && under_way_.front().pending.done() && under_way_.front().stage == Stage::kLast) {
      take_front();
    }
  }
  void finish() override {
    begin_second_ones();
    while (!under_way_.empty()) {
      under_way_.front().pending.wait();
      take_front();
    }
  }
  std::size_t bytes_of(const Bucket& bucket) const override {
    const Plan& plan = plans_[buckets_.number_of(bucket)];
    return is_exact(plan) ? bucket.bytes : plan.first.size + plan.second.size;
  }

 private:
  enum class Stage : std::uint8_t { kFirst, kLast };
  struct UnderWay {
    Stage stage;
    const Bucket& bucket;
    Pending pending;
  };

  // ---- What is sent

  Plan plan(const Bucket& bucket) {
    Plan plan;
    plan.first.begin = bytes_;
    const auto add_plain = [&](std::size_t from, std::size_t bytes) {
      plan.plain.push_back({from - bucket.begin, take_room(bytes), bytes});
    };
    for (const std::size_t each : bucket.members) {
      const at::Tensor gradient = matrix_of(buckets_.view(each));
      if (is_worth_it(gradient)) {
        plan.matrices.push_back(
            {.parameter = each, .gradient = gradient, .p_place = take_room(bytes_of_rows(gradient, 0))});
      } else {
        add_plain(buckets_.place_of(each), gradient.nbytes());
      }
    }
    if (bucket.has_marks()) add_plain(bucket.marks, bucket.members.size() * size_of(bucket.dtype));
    plan.first.size = bytes_ - plan.first.begin;
    plan.second.begin = bytes_;
    for (Matrix& each : plan.matrices) each.q_place = take_room(bytes_of_rows(each.gradient, 1));
    plan.second.size = bytes_ - plan.second.begin;
    return plan;
  }
  std::int64_t rows_sent(const at::Tensor& gradient) const {
    return std::min({std::int64_t{options_.rank}, gradient.size(0), gradient.size(1)});
  }
  /// True if P and Q together have at most half as many numbers as the gradient.
  bool is_worth_it(const at::Tensor& gradient) const {
    const bool is_known = gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble;
    return is_known && 2 * rows_sent(gradient) * (gradient.size(0) + gradient.size(1)) <= gradient.numel();
  }
  std::size_t bytes_of_rows(const at::Tensor& gradient, int dimension) const {
    return static_cast<std::size_t>(rows_sent(gradient) * gradient.size(dimension)) * gradient.element_size();
  }
  /// Reserves bytes in the memory that is sent, in cache lines of their own, and returns their offset.
  std::size_t take_room(std::size_t bytes) {
    const std::size_t begin = bytes_;
    bytes_ += (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    return begin;
  }
  void place(Matrix& matrix) {
    const at::Tensor& gradient = matrix.gradient;
    const auto rows = [&](std::size_t place, int dimension) {
      return at::from_blob(sent() + place, {rows_sent(gradient), gradient.size(dimension)}, gradient.options());
    };
    matrix.p = rows(matrix.p_place, 0);
    matrix.q = rows(matrix.q_place, 1);
    matrix.error = at::zeros_like(gradient);
    if (!gradient.is_cpu()) {
      matrix.random = at::empty_like(matrix.q);
      for (std::int64_t row = 0; row < matrix.q.size(0); ++row) fill_row(matrix.random, row, matrix);
    }
    fill_empty_rows(matrix);
  }
  static void fill_row(const at::Tensor& rows, std::int64_t row, const Matrix& matrix) {
    fill_at_random(rows[row], matrix.q_place + static_cast<std::uint64_t>(row));
  }
  /// Gives rows of zeros random numbers, because they would stay zeros for ever.
  static void fill_empty_rows(const Matrix& matrix) {
    if (matrix.random.defined()) {
      matrix.q.copy_(at::where(matrix.q.ne(0).any(1, /*keepdim=*/true), matrix.q, matrix.random));
      return;
    }
    for (std::int64_t row = 0; row < matrix.q.size(0); ++row) {
      if (!matrix.q[row].any().item<bool>()) fill_row(matrix.q, row, matrix);
    }
  }

  std::byte* sent() const { return memory_->data(); }
  std::span<std::byte> at(const Range& range) const { return memory_->span().subspan(range.begin, range.size); }
  std::byte* bytes_in(const Bucket& bucket) const { return buckets_.bytes_of(bucket).data(); }
  void copy(std::byte* from, std::byte* to, std::size_t bytes) const {
    const at::Device device = buckets_.device();
    if (device.is_cpu()) {
      std::memcpy(to, from, bytes);
    } else {
      const auto count = static_cast<std::int64_t>(bytes);
      tensor_on(to, device, at::kByte, count).copy_(tensor_on(from, device, at::kByte, count));
    }
  }

  // ---- Stages

  Plan& plan_of(const Bucket& bucket) { return plans_[buckets_.number_of(bucket)]; }
  bool is_exact(const Plan& plan) const { return plan.matrices.empty() || steps_ <= options_.exact_steps; }
  Pending reduce(const Bucket& bucket, std::span<std::byte> data) {
    return ranks_.begin_all_reduce(bucket.dtype, data, Reduction::kMean);
  }

  void begin_second_ones() {
    for (UnderWay& each : under_way_) {
      if (each.stage != Stage::kFirst) continue;
      each.pending.wait();
      Plan& plan = plan_of(each.bucket);
      for (const Plain& plain : plan.plain) copy(sent() + plain.to, bytes_in(each.bucket) + plain.from, plain.bytes);
      for (Matrix& matrix : plan.matrices) {
        straighten(matrix.p);
        at::mm_out(matrix.q, matrix.p, matrix.gradient);
      }
      each.stage = Stage::kLast;
      each.pending = reduce(each.bucket, at(plan.second));
    }
  }
  void take_front() {
    Plan& plan = plan_of(under_way_.front().bucket);
    if (!is_exact(plan)) {
      for (Matrix& each : plan.matrices) take(each);
    }
    under_way_.pop_front();
  }
  void take(Matrix& matrix) {
    matrix.error.copy_(matrix.gradient);
    if (!buckets_.is_marked(matrix.parameter)) return;  // no rank has used it: its error waits for the next gradient
    at::mm_out(matrix.gradient, matrix.p.t(), matrix.q);
    matrix.error.sub_(matrix.gradient);
    // The optimizer or its scaler leaves such a step out, so its error must not be carried into the next step.
    const at::Tensor finite = at::isfinite(matrix.gradient).all();
    if (!finite.is_cpu()) {
      matrix.error.masked_fill_(finite.logical_not(), 0);
      matrix.q.masked_fill_(finite.logical_not(), 0);
    } else if (!finite.item<bool>()) {
      matrix.error.zero_();
      matrix.q.zero_();
    }
    fill_empty_rows(matrix);
  }

  Communicator& ranks_;
  Buckets& buckets_;
  PowerSgd options_;
  std::uint64_t steps_;  // number of steps, the present one included
  std::vector<Plan> plans_;
  std::size_t bytes_ = 0;
  std::optional<Buffer<std::byte>> memory_;
  std::deque<UnderWay> under_way_;
};

}  // namespace

std::unique_ptr<Exchange> make_power_sgd(Communicator& ranks, Buckets& buckets, const PowerSgd& options,
                                         std::uint64_t steps) {
  return std::make_unique<PowerSgdExchange>(ranks, buckets, options, steps);
}

}  // namespace pharos::ml
