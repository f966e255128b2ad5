#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos::ml {

class Communicator;

/// Measures how good predictions are, over many batches and all ranks, as no mean of batches can. What the batches add
/// up to stays on the device of the predictions; the host waits for it only in value(). A learner has its measures in
/// Learner::measures(), and fit() reports them:
///
///   std::vector<ml::NamedMeasure> measures() override { return {{"auc", &auc_}}; }
///   ml::Metrics validation_step(const ml::Batch& batch) override {
///     auc_.add(net_->forward(ml::tensor_of(batch["x"])), ml::tensor_of(batch["clicked"]));
///     return {};
///   }
///
/// A loop of your own calls reset() before the first batch and value() after the last. The object keeps sums or
/// samples, but no module. One thread at a time. Functions throw InvalidArgument for tensors whose shapes do not go
/// together or that hold other than what the class asks for, and libtorch's exceptions. Whether classes and scores
/// make sense is looked at in value(), on all ranks; Perplexity looks at tokens in add().
class PHAROS_API Measure {
 public:
  Measure() = default;
  Measure(Measure&&) = delete;
  virtual ~Measure();

  /// Forgets all samples.
  virtual void reset() = 0;
  /// The result for the samples of all ranks since reset(). All ranks call it, and get the same. NaN if there were no
  /// samples. Throws what fails between ranks.
  virtual double value(Communicator& ranks) const = 0;

  /// While it is false, samples that are added do not count: for the batch of a rank that has no sample left, which
  /// only takes part (Batch::samples is 0). fit() sets it.
  void set_counts(bool counts) { counts_ = counts; }

 protected:
  bool counts() const { return counts_; }

 private:
  bool counts_ = true;
};

/// A measure, and the name under which fit() reports it, after "validation_". The learner owns the measure.
struct NamedMeasure {
  std::string name;
  Measure* measure = nullptr;
};

/// A measure that follows from a few sums over all samples.
class PHAROS_API SumMeasure : public Measure {
 public:
  explicit SumMeasure(std::int64_t sums) : count_{sums} {}
  void reset() override { sums_.reset(); }

 protected:
  /// `sums`: one dimension.
  void add_sums(const at::Tensor& sums);
  /// The sums of all ranks, as doubles on the host.
  std::vector<double> sums_of_all(Communicator& ranks) const;

 private:
  const std::int64_t count_;
  at::Tensor sums_{};  // doubles, on the device of the first sums
};

/// The share of samples whose class is among those with the `top` highest scores.
class PHAROS_API Accuracy final : public SumMeasure {
 public:
  explicit Accuracy(std::int64_t top = 1) : SumMeasure{2}, top_{top} {}
  /// `scores`: a row of scores, or logits, for each sample. `classes`: the number of the right class of each sample.
  void add(const at::Tensor& scores, const at::Tensor& classes);
  double value(Communicator& ranks) const override;

 private:
  const std::int64_t top_;
};

/// The mean distance of predictions from what they should be. Each element counts.
class PHAROS_API MeanAbsoluteError final : public SumMeasure {
 public:
  MeanAbsoluteError() : SumMeasure{2} {}
  /// Tensors of the same shape.
  void add(const at::Tensor& predictions, const at::Tensor& targets);
  double value(Communicator& ranks) const override;
};

/// e to the mean of -log p(token), over all tokens but those that are `ignored`.
class PHAROS_API Perplexity final : public SumMeasure {
 public:
  explicit Perplexity(std::int64_t ignored = -100) : SumMeasure{2}, ignored_{ignored} {}
  /// `logits`: one row for each token, in its last dimension. `tokens`: as many as there are rows.
  void add(const at::Tensor& logits, const at::Tensor& tokens);
  double value(Communicator& ranks) const override;

 private:
  const std::int64_t ignored_;
};

/// How many samples of each class were taken for which class. Its value is the share of samples that were taken for
/// their own class.
class PHAROS_API ConfusionMatrix : public SumMeasure {
 public:
  explicit ConfusionMatrix(std::int64_t classes);
  /// `predicted`: the number of a class for each sample, or a row of scores for each sample. `classes`: the right ones.
  void add(const at::Tensor& predicted, const at::Tensor& classes);
  /// In row r and column c: the number of samples of class r that were taken for class c. Called by all ranks.
  at::Tensor matrix(Communicator& ranks) const;
  double value(Communicator& ranks) const override;

 private:
  const std::int64_t classes_;
};

/// F1, the harmonic mean of precision and recall.
class PHAROS_API F1 final : public ConfusionMatrix {
 public:
  /// What one number is made of.
  enum class Of : std::uint8_t {
    kPositive,  ///< Class 1, for two classes.
    kMean,      ///< The mean over the classes that occur (macro).
    kAll,       ///< All samples, whatever their class (micro). With one class for each sample it is the accuracy.
  };
  explicit F1(std::int64_t classes = 2, Of of = Of::kPositive) : ConfusionMatrix{classes}, of_{of} {}
  /// F1 of each class; NaN for one that does not occur. Called by all ranks.
  std::vector<double> of_classes(Communicator& ranks) const;
  double value(Communicator& ranks) const override;

 private:
  const Of of_;
};

/// The area under the ROC curve: how often a positive sample has a higher score than a negative one, where equal scores
/// count half. Exact: each rank keeps a score and a class for each sample, and value() gathers those of all ranks. NaN
/// unless there are samples of both classes.
class PHAROS_API Auc final : public Measure {
 public:
  /// `scores`: one number for each sample; probabilities or logits. `classes`: 0 or 1 for each sample.
  void add(const at::Tensor& scores, const at::Tensor& classes);
  void reset() override;
  double value(Communicator& ranks) const override;

 private:
  std::vector<at::Tensor> scores_{};
  std::vector<at::Tensor> classes_{};
};

}  // namespace pharos::ml
