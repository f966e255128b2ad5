#include <ATen/ops/isfinite.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/ddp.hpp>

#include "module/heap.hpp"
#include "module/parameters.hpp"
#include "module/torch_dtype.hpp"
#include "parallel/backward_end.hpp"
#include "parallel/buckets.hpp"
#include "parallel/make_exchange.hpp"
#include "parallel/shares.hpp"

namespace pharos::ml {

using torch::autograd::Node;
using torch::autograd::variable_list;

// In a step gradients come in some order. Each is copied to its place in a bucket while it is still in the caches, and
// the parameter's gradient becomes a view of that place. A bucket is reduced as soon as it and all buckets before it
// are complete. Each further gradient lets the reductions that are under way go on. The end of the backward waits for
// them.
class Ddp::Core : public std::enable_shared_from_this<Core> {
 public:
  /// `data` connects the same ranks as `ranks`, on the device of the tensors.
  Core(Communicator& ranks, Communicator& data, Marks marks, torch::nn::Module& module, const DdpOptions& options)
      : ranks_{ranks},
        data_{data},
        marks_{marks},
        options_{options},
        shares_{ranks},
        all_parameters_{parameters_of(module)},
        buffers_{buffers_of(module)} {
    for (const auto* const tensors : {&all_parameters_, &buffers_}) {
      check_devices(ranks_, data_, *tensors, "Ddp{ranks, gpus, module}");
    }
    check_alike(ranks_, all_parameters_);
    check_alike(ranks_, buffers_);
    broadcast(data_, all_parameters_, 0);
    broadcast(data_, buffers_, 0);
    for (const NamedTensor& each : all_parameters_) {
      if (!each.tensor.requires_grad()) continue;
      check_type(each);
      names_.push_back(each.name);
      parameters_.push_back(each.tensor);
    }
    states_.resize(parameters_.size());
    // Until the first step has shown the order of the gradients, it is guessed: the reverse of the order in which
    // parameters are listed.
    std::vector<std::size_t> order(parameters_.size());
    std::iota(order.rbegin(), order.rend(), 0);
    make_buckets(order);
  }
  Core(Core&&) = delete;

  void attach() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      State& state = states_[i];
      state.accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
      const auto came = [this, i](const variable_list& outputs, const variable_list&) -> variable_list {
        arrive(i);
        return outputs;
      };
      state.hook = state.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(came));
    }
  }
  void detach() {
    for (State& state : states_) state.accumulator->del_post_hook(state.hook);
  }

  void weigh(double samples) {
    shares_.exchange(samples);
    if (samples == 0) give_nothing();
  }
  void finish(const std::function<void()>& step);

  std::shared_ptr<int> no_syncs() { return {shared_from_this(), &no_syncs_}; }
  const Step& last_step() const { return step_; }

 private:
  struct State {
    std::shared_ptr<Node> accumulator{};  // kept alive here, because the parameter has only a weak pointer to it
    std::uintptr_t hook = 0;
    int parts_expected = 1;  // number of parts in which its gradient comes in a backward
    int parts = 0;           // number of parts that have come in this backward
    bool finite = true;
  };

  std::size_t bucket_bytes() const;
  static void check_type(const NamedTensor& parameter);
  void make_buckets(std::span<const std::size_t> order);
  void arrive(std::size_t parameter);
  void begin();
  void begin_backward();
  void take(std::size_t parameter);
  void complete(std::size_t parameter);
  void reduce_next();
  void end();
  void forget();
  void reduce_rest();
  void give_nothing();
  void check_finite();
  void rebuild();

  Communicator ranks_;
  Communicator data_;
  const Marks marks_;
  const DdpOptions options_;
  Shares shares_;
  const std::vector<NamedTensor> all_parameters_;
  const std::vector<NamedTensor> buffers_;
  std::vector<std::string> names_;  // names of the trained parameters
  std::vector<at::Tensor> parameters_;
  std::vector<State> states_;
  std::unique_ptr<Buckets> buckets_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<std::size_t> missing_;  // by bucket: number of gradients that have not come
  std::size_t next_bucket_ = 0;
  std::vector<std::size_t> came_;  // in the first step: parameters in the order in which their gradients came
  bool under_way_ = false;
  int no_syncs_ = 0;  // number of NoSyncs that live
  Step step_;
};

/// The default is larger between GPUs, because there an operation has a higher fixed cost.
std::size_t Ddp::Core::bucket_bytes() const {
  if (options_.bucket_bytes != 0) return options_.bucket_bytes;
  return std::size_t{data_.is_on_gpu() ? 25U : 1U} << 20;
}

void Ddp::Core::check_type(const NamedTensor& parameter) {
  const auto type = parameter.tensor.scalar_type();
  if (dtype_of(type) && at::isFloatingType(type)) return;
  throw_error(
      Error{ErrorCode::kUnsupported,
            "parameter \"" + parameter.name + "\" is " + c10::toString(type) + ", whose gradients cannot be reduced",
            "Gradients must be float, double, half or bfloat16."});
}

void Ddp::Core::make_buckets(std::span<const std::size_t> order) {
  exchange_.reset();
  buckets_.reset();  // a GPU may have no memory for old and new buckets at the same time
  buckets_ = std::make_unique<Buckets>(data_, marks_, parameters_, order, bucket_bytes());
  exchange_ = make_exchange(data_, *buckets_, options_, step_.number);
  forget();
}

// ---- A backward

void Ddp::Core::arrive(std::size_t parameter) {
  if (no_syncs_ > 0) return;
  if (!under_way_) begin_backward();
  State& state = states_[parameter];
  ++state.parts;
  const bool is_first_step = step_.number == 0;
  if (is_first_step && state.parts == 1) came_.push_back(parameter);
  // The number of parts is only known after the first step.
  if (options_.static_graph && is_first_step) return;
  if (state.parts < state.parts_expected) return;
  if (state.parts > state.parts_expected) {
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      "the gradient of \"" + names_[parameter] + "\" came a second time, after it had been reduced",
                      "A part of the module runs again in backward: set DdpOptions::static_graph."});
  }
  take(parameter);
  complete(parameter);
  exchange_->advance();
}

void Ddp::Core::begin() {
  if (exchange_ == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "the ranks failed while this Ddp made its buckets",
                      "Make another Ddp, with a communicator whose ranks are all alive."});
  }
  exchange_->finish();  // reductions that are left from a backward that threw must end before new ones begin
  came_.clear();
  step_.operations = 0;
  step_.bytes = 0;
  step_.waited = {};
}

void Ddp::Core::begin_backward() {
  under_way_ = true;
  begin();
  const auto core = shared_from_this();
  at_end_of_backward([core] { core->end(); }, [core] { core->forget(); });
}

/// Moves a gradient, weighted, to its place in the bucket.
void Ddp::Core::take(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[parameter].mutable_grad();
  const at::Tensor& view = buckets_->view(parameter);
  const bool counts = gradient.defined();
  if (counts) {
    if (gradient.layout() != at::kStrided) gradient = gradient.to_dense();
    if (options_.check_numbers) states_[parameter].finite = at::isfinite(gradient).all().item<bool>();
    if (gradient.data_ptr() != view.data_ptr()) view.copy_(gradient);
    if (shares_.factor() != 1) view.mul_(shares_.factor());
    gradient = view;
  } else {
    view.zero_();
  }
  buckets_->mark(parameter, counts);
}

void Ddp::Core::complete(std::size_t parameter) {
  --missing_[buckets_->bucket_of(parameter)];
  while (next_bucket_ < missing_.size() && missing_[next_bucket_] == 0) reduce_next();
}

void Ddp::Core::reduce_next() {
  const Bucket& bucket = (*buckets_)[next_bucket_++];
  ++step_.operations;
  exchange_->begin(bucket);
  step_.bytes += exchange_->bytes_of(bucket);
}

void Ddp::Core::end() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    State& state = states_[i];
    const bool has_been_taken = state.parts >= state.parts_expected && !(options_.static_graph && step_.number == 0);
    if (has_been_taken) continue;
    take(i);
    complete(i);
  }
  reduce_rest();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (buckets_->is_marked(i)) parameters_[i].mutable_grad() = buckets_->view(i);
  }
  if (options_.check_numbers) check_finite();
  const bool is_first_step = step_.number++ == 0;
  if (is_first_step) rebuild();
  forget();
}

/// Resets the state of a backward.
void Ddp::Core::forget() {
  under_way_ = false;
  next_bucket_ = 0;
  missing_.clear();
  const std::size_t buckets =
      buckets_ == nullptr ? 0 : buckets_->size();  // there are no buckets if the ranks failed while making them
  for (std::size_t b = 0; b < buckets; ++b) missing_.push_back((*buckets_)[b].members.size());
  for (State& state : states_) {
    state.parts = 0;
    state.finite = true;
  }
}

/// Waits for the reductions that were begun, and does what belongs to the end of a step.
void Ddp::Core::reduce_rest() {
  const auto began = std::chrono::steady_clock::now();
  buckets_->share_marks(ranks_);
  exchange_->finish();
  if (options_.broadcast_buffers) broadcast(data_, buffers_, shares_.first_active());
  step_.waited = std::chrono::steady_clock::now() - began;
}

/// All ranks find the same numbers to be not finite, because a gradient that is not finite on one rank makes the sum
/// not finite on all. So all of them reach the all_gather() together.
void Ddp::Core::check_finite() {
  std::vector<std::uint8_t> own(parameters_.size());
  bool all_finite = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    own[i] = states_[i].finite ? 0 : 1;
    all_finite = all_finite && at::isfinite(buckets_->view(i)).all().item<bool>();
  }
  if (all_finite) return;
  std::vector<std::uint8_t> all(own.size() * ranks_.size());
  ranks_.all_gather(std::span<const std::uint8_t>{own}, std::span{all});
  const auto found = std::find(all.begin(), all.end(), 1);
  if (found == all.end()) return;  // only the sum overflowed, which the optimizer or the scaler deals with
  const auto place = static_cast<std::size_t>(found - all.begin());
  throw_error(Error{ErrorCode::kFailedPrecondition,
                    "in step " + std::to_string(options_.first_step + step_.number + 1) + " the gradient of \"" +
                        names_[place % own.size()] + "\" on rank " + std::to_string(place / own.size()) +
                        " has elements that are not finite",
                    "Look at that rank's data and loss; a lower learning rate or clipping may help."});
}

/// Makes the buckets again, in the order in which gradients came at rank 0, for the second step and all later ones.
void Ddp::Core::rebuild() {
  for (State& state : states_) {
    if (options_.static_graph && state.parts > 0) state.parts_expected = state.parts;
  }
  std::vector<std::int64_t> order(came_.begin(), came_.end());
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (states_[i].parts == 0) order.push_back(static_cast<std::int64_t>(i));
  }
  ranks_.broadcast(std::span{order}, 0);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& each : parameters_) {
    gradients.push_back(each.grad().defined() ? each.grad().clone() : at::Tensor{});
    each.mutable_grad().reset();
  }
  make_buckets(std::vector<std::size_t>(order.begin(), order.end()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    buckets_->view(i).copy_(gradients[i]);
    parameters_[i].mutable_grad() = buckets_->view(i);
  }
}

// ---- Uneven shares

void Ddp::Core::finish(const std::function<void()>& step) {
  std::uint32_t last = 0;
  for (;;) {
    last = shares_.first_active();
    shares_.finish();
    if (shares_.all_have_finished()) break;
    give_nothing();
    if (step) step();
  }
  shares_.forget();
  broadcast(data_, all_parameters_, last);
  broadcast(data_, buffers_, last);
}

/// Takes part in a step of the other ranks without a gradient.
void Ddp::Core::give_nothing() {
  for (const at::Tensor& each : parameters_) each.mutable_grad().reset();
  begin();
  end();
}

// ---- Ddp

Ddp::Ddp(Communicator& ranks, torch::nn::Module& module, const DdpOptions& options)
    : core_{std::make_shared<Core>(ranks, ranks, Marks::kBehind, module, options)} {
  keep_heap();
  core_->attach();
}
Ddp::Ddp(Communicator& ranks, Communicator& gpus, torch::nn::Module& module, const DdpOptions& options)
    : core_{std::make_shared<Core>(ranks, gpus, Marks::kOnHost, module, options)} {
  core_->attach();
}

Ddp::~Ddp() {
  core_->detach();
}

NoSync Ddp::no_sync() {
  return NoSync{core_->no_syncs()};
}
void Ddp::weigh(double samples) {
  core_->weigh(samples);
}
void Ddp::finish(const std::function<void()>& step) {
  core_->finish(step);
}
const Ddp::Step& Ddp::last_step() const {
  return core_->last_step();
}

}  // namespace pharos::ml
