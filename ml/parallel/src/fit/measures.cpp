#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/measures.hpp>

namespace pharos::ml {
namespace {

using at::Tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string text_of(const Tensor& tensor) {
  std::string shape;
  for (const std::int64_t each : tensor.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(each);
  return '(' + shape + ')';
}

/// Throws InvalidArgument unless `fits`.
void check(bool fits, const char* measure, const char* wants, const Tensor& a, const Tensor& b) {
  if (fits) return;
  throw_error(Error{ErrorCode::kInvalidArgument, std::string{measure} + " was given tensors of the shapes " +
                                                     text_of(a) + " and " + text_of(b) + ", but wants " + wants});
}

double share(double part, double whole) {
  return whole == 0 ? kNaN : part / whole;
}

/// A row of numbers: the sum of `values`, and how many they are.
Tensor sum_and_count(const Tensor& values, const Tensor& count) {
  return at::stack({values.sum(at::kDouble), count.to(at::kDouble)});
}
Tensor sum_and_count(const Tensor& values) {
  return sum_and_count(values, at::full({}, values.numel(), values.options().dtype(at::kDouble)));
}

Tensor all_of(const std::vector<Tensor>& parts) {
  return parts.empty() ? at::empty({0}, at::kDouble) : at::cat(parts).to(at::kCPU, at::kDouble).contiguous();
}

/// The numbers of all ranks, one rank after the other. All ranks call it.
std::vector<double> gathered(Communicator& ranks, const Tensor& own) {
  const std::int64_t count = own.numel();
  std::vector<std::int64_t> counts(ranks.size());
  ranks.all_gather(std::span<const std::int64_t>{&count, 1}, std::span{counts});
  const auto most = static_cast<std::size_t>(*std::ranges::max_element(counts));
  std::vector<double> padded(most);
  std::copy_n(own.const_data_ptr<double>(), count, padded.begin());
  std::vector<double> of_all(most * ranks.size());
  ranks.all_gather(std::span<const double>{padded}, std::span{of_all});
  std::vector<double> numbers;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto begin = of_all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    numbers.insert(numbers.end(), begin, begin + counts[rank]);
  }
  return numbers;
}

}  // namespace

Measure::~Measure() = default;

// ---- Sums

void SumMeasure::add_sums(const Tensor& sums) {
  if (!counts()) return;
  if (sums.dim() != 1 || sums.size(0) != count_) {
    throw_error(Error{ErrorCode::kInvalidArgument, "a measure of " + std::to_string(count_) +
                                                       " sums was given a tensor of the shape " + text_of(sums)});
  }
  const at::NoGradGuard no_grad;
  sums_ = sums_.defined() ? sums_ + sums : sums.to(at::kDouble);
}

std::vector<double> SumMeasure::sums_of_all(Communicator& ranks) const {
  std::vector<double> sums(static_cast<std::size_t>(count_));
  if (sums_.defined()) {
    const Tensor here = sums_.to(at::kCPU).contiguous();
    std::copy_n(here.const_data_ptr<double>(), count_, sums.begin());
  }
  ranks.all_reduce(std::span{sums});
  return sums;
}

void Accuracy::add(const Tensor& scores, const Tensor& classes) {
  check(scores.dim() == 2 && classes.dim() == 1 && classes.size(0) == scores.size(0) && scores.size(1) >= top_,
        "Accuracy", "a row of scores, for at least as many classes as count, and one class for each sample", scores,
        classes);
  const at::NoGradGuard no_grad;
  const Tensor best = top_ == 1 ? scores.argmax(1, true) : std::get<1>(scores.topk(top_, 1));
  add_sums(sum_and_count(best.eq(classes.unsqueeze(1)).any(1)));
}
double Accuracy::value(Communicator& ranks) const {
  const std::vector<double> sums = sums_of_all(ranks);
  return share(sums[0], sums[1]);
}

void MeanAbsoluteError::add(const Tensor& predictions, const Tensor& targets) {
  check(predictions.sizes() == targets.sizes(), "MeanAbsoluteError", "two of the same shape", predictions, targets);
  const at::NoGradGuard no_grad;
  add_sums(sum_and_count((predictions - targets).abs()));
}
double MeanAbsoluteError::value(Communicator& ranks) const {
  const std::vector<double> sums = sums_of_all(ranks);
  return share(sums[0], sums[1]);
}

void Perplexity::add(const Tensor& logits, const Tensor& tokens) {
  check(logits.dim() >= 2 && logits.sizes().slice(0, static_cast<std::size_t>(logits.dim()) - 1) == tokens.sizes(),
        "Perplexity", "a row of logits for each token", logits, tokens);
  const at::NoGradGuard no_grad;
  const Tensor rows = logits.flatten(0, -2);
  const Tensor each =
      at::cross_entropy_loss(c10::isReducedFloatingType(rows.scalar_type()) ? rows.to(at::kFloat) : rows,
                             tokens.flatten(), {}, at::Reduction::None, ignored_);
  add_sums(sum_and_count(each, tokens.ne(ignored_).sum()));
}
double Perplexity::value(Communicator& ranks) const {
  const std::vector<double> sums = sums_of_all(ranks);
  return std::exp(share(sums[0], sums[1]));
}

// ---- Classes

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : SumMeasure{classes * classes + 1}, classes_{classes} {
  if (classes < 2) throw_error(Error{ErrorCode::kInvalidArgument, "a confusion matrix needs two classes or more"});
}

void ConfusionMatrix::add(const Tensor& predicted, const Tensor& classes) {
  const bool are_scores = predicted.dim() == 2 && predicted.size(1) == classes_;
  const bool are_classes = predicted.dim() == 1 && !predicted.is_floating_point();
  check(classes.dim() == 1 && (are_scores || are_classes) && predicted.size(0) == classes.size(0), "ConfusionMatrix",
        "a class, as a whole number, or a score for each class, and the right class of each sample", predicted,
        classes);
  const at::NoGradGuard no_grad;
  const auto is_class = [&](const Tensor& each) { return each.ge(0).logical_and(each.lt(classes_)); };
  const Tensor taken = (are_scores ? predicted.argmax(1) : predicted).to(at::kLong);
  const Tensor own = classes.to(at::kLong);
  // Numbers that are no class are counted behind the matrix, so that the host need not look at them now.
  const Tensor cell =
      at::where(is_class(own).logical_and(is_class(taken)), own * classes_ + taken, classes_ * classes_);
  const auto doubles = own.options().dtype(at::kDouble);
  add_sums(at::zeros({classes_ * classes_ + 1}, doubles).index_add_(0, cell, at::ones({cell.numel()}, doubles)));
}

Tensor ConfusionMatrix::matrix(Communicator& ranks) const {
  std::vector<double> sums = sums_of_all(ranks);
  if (sums.back() != 0) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "ConfusionMatrix was given a class that is not from 0 to " + std::to_string(classes_ - 1)});
  }
  return at::from_blob(sums.data(), {classes_, classes_}, at::kDouble).to(at::kLong);
}

double ConfusionMatrix::value(Communicator& ranks) const {
  const Tensor counts = matrix(ranks);
  return share(counts.trace().item<double>(), counts.sum().item<double>());
}

std::vector<double> F1::of_classes(Communicator& ranks) const {
  const Tensor counts = matrix(ranks).to(at::kDouble);
  const Tensor occurs = counts.sum(0) + counts.sum(1);  // as prediction and as class
  std::vector<double> all;
  for (std::int64_t i = 0; i < counts.size(0); ++i) {
    all.push_back(share(2 * counts[i][i].item<double>(), occurs[i].item<double>()));
  }
  return all;
}

double F1::value(Communicator& ranks) const {
  if (of_ == Of::kAll) return ConfusionMatrix::value(ranks);
  std::vector<double> all = of_classes(ranks);
  if (of_ == Of::kPositive) return all[1];
  std::erase_if(all, [](double each) { return std::isnan(each); });
  return share(std::accumulate(all.begin(), all.end(), 0.0), static_cast<double>(all.size()));
}

// ---- Auc

void Auc::add(const Tensor& scores, const Tensor& classes) {
  check(scores.numel() == classes.numel(), "Auc", "one score and one class for each sample", scores, classes);
  if (!counts()) return;
  // Copies: the caller may change its tensors, and a view would keep all of the memory behind it.
  scores_.push_back(scores.detach().flatten().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
  classes_.push_back(classes.detach().flatten().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
}

void Auc::reset() {
  scores_.clear();
  classes_.clear();
}

double Auc::value(Communicator& ranks) const {
  const std::vector<double> scores = gathered(ranks, all_of(scores_));
  const std::vector<double> classes = gathered(ranks, all_of(classes_));
  const auto is_class = [](double each) { return each == 0 || each == 1; };
  if (std::ranges::any_of(scores, [](double each) { return std::isnan(each); }) ||
      !std::ranges::all_of(classes, is_class)) {
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "Auc was given a score that is no number, or a class that is neither "
                      "0 nor 1"});
  }
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t sample) { return scores[sample]; });
  double positives = 0;
  double negatives = 0;
  double before = 0;  // pairs of a positive sample and a negative one with a lower score
  for (std::size_t i = 0; i < order.size();) {
    double equal_positives = 0;
    double equal_negatives = 0;
    const double score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      (classes[order[i]] == 1 ? equal_positives : equal_negatives) += 1;
    }
    before += equal_positives * (negatives + equal_negatives / 2);
    positives += equal_positives;
    negatives += equal_negatives;
  }
  return share(before, positives * negatives);
}

}  // namespace pharos::ml
