// pharos-bench-gpu: trains GPT-2 with 124 million parameters in bfloat16 on GPU 0. Prints a line for each figure: its
// name, value and unit. benchmarks/peers/gpu_peer.py trains the same model with PyTorch. As one of several ranks (RANK,
// WORLD_SIZE), all of which have that GPU, it measures what they do together instead; called with "actors", what actors
// and the object store do with it. Called with "profile WAY", it prints how long each kernel of a step takes.

#include <ATen/DeviceAccelerator.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/ml/array.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/ml/ddp.hpp>
#include <pharos/ml/device.hpp>
#include <pharos/ml/graph.hpp>
#include <pharos/ml/layer_norm.hpp>
#include <pharos/ml/linear.hpp>
#include <pharos/ml/linear_cross_entropy.hpp>
#include <pharos/ml/module_state.hpp>
#include <pharos/ml/optimizer.hpp>
#include <pharos/ml/precision.hpp>
#include <pharos/ml/sharded.hpp>
#include <pharos/ml/stored_pins.hpp>
#include <pharos/ml/training.hpp>
#include <pharos/pharos.hpp>

namespace {

namespace ml = pharos::ml;
namespace nn = torch::nn;
using torch::Tensor;

constexpr std::int64_t kVocabulary = 50304;
constexpr std::int64_t kTokens = 1024;
constexpr std::int64_t kWidth = 768;
constexpr std::int64_t kHeads = 12;
constexpr std::int64_t kBlocks = 12;
constexpr int kWarmSteps = 10;
constexpr int kSteps = 30;

/// A network's stream, and the stream normalised for the next branch.
using ml::SumAndNorm;

Tensor linear(const nn::Linear& layer, const Tensor& x) {
  return ml::linear(x, layer->weight, layer->bias);
}
SumAndNorm add(const Tensor& stream, const Tensor& branch, const nn::LayerNorm& norm) {
  return ml::add_layer_norm(stream, branch, norm->weight, norm->bias);
}

struct BlockImpl : nn::Module {
  /// `next`: the norm behind this block.
  SumAndNorm forward(const SumAndNorm& x, const nn::LayerNorm& next) {
    const SumAndNorm attended = add(x.sum, attend(x.norm), norm2);
    return add(attended.sum, linear(down, ml::linear_gelu(attended.norm, up->weight, up->bias)), next);
  }
  Tensor attend(const Tensor& x) {
    const auto by_head = [&](const Tensor& part) {
      return part.view({x.size(0), x.size(1), kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const auto parts = linear(all, x).split(kWidth, 2);
    const Tensor seen = torch::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {},
                                                            /*dropout_p=*/0, /*is_causal=*/true);
    return linear(out, seen.transpose(1, 2).reshape(x.sizes()));
  }
  nn::LayerNorm norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear all = register_module("all", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear out = register_module("out", nn::Linear(kWidth, kWidth));
  nn::LayerNorm norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear up = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down = register_module("down", nn::Linear(4 * kWidth, kWidth));
};
TORCH_MODULE(Block);

struct Gpt2Impl : nn::Module {
  Gpt2Impl() {
    for (std::int64_t i = 0; i < kBlocks; ++i) blocks->push_back(Block{});
    const torch::NoGradGuard no_grad;
    for (auto& each : parameters()) {
      if (each.dim() == 2) each.normal_(0, 0.02);
    }
  }
  BlockImpl& block(std::int64_t i) { return *std::static_pointer_cast<BlockImpl>((*blocks)[i]); }
  /// What the output layer works on.
  Tensor hidden(const Tensor& tokens) {
    const Tensor begin = words(tokens) + places(torch::arange(tokens.size(1), tokens.device()));
    const auto& first = block(0).norm1;
    SumAndNorm x{begin, ml::layer_norm(begin, first->weight, first->bias)};
    for (std::int64_t i = 0; i < kBlocks; ++i) x = block(i).forward(x, i + 1 < kBlocks ? block(i + 1).norm1 : norm);
    return x.norm;
  }
  nn::Embedding words = register_module("words", nn::Embedding(kVocabulary, kWidth));
  nn::Embedding places = register_module("places", nn::Embedding(kTokens, kWidth));
  nn::ModuleList blocks = register_module("blocks", nn::ModuleList());
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
};
TORCH_MODULE(Gpt2);

/// Returns the floating-point operations for one token, forward and backward.
double operations(const nn::Module& module) {
  double parameters = 0;
  for (const Tensor& each : module.parameters()) parameters += static_cast<double>(each.numel());
  return 6 * parameters + 6.0 * kBlocks * kWidth * kTokens;
}

/// A way to use bfloat16.
struct Way {
  const char* name;
  bool keeps_floats_beside;  ///< the module is in bfloat16 and the optimizer keeps float copies; otherwise autocast
};
constexpr Way kAutocast{"autocast", false};
constexpr Way kBf16{"bf16", true};
constexpr const Way* kWays[] = {&kAutocast, &kBf16};

/// The loss of the model whose output layer shares the weight of the words.
Tensor loss_of(Gpt2& model, const Tensor& tokens, const Tensor& next) {
  return ml::linear_cross_entropy(model->hidden(tokens), model->words->weight, next);
}

void print(const std::string& name, double value, const char* unit) {
  std::printf("%s %.*f %s\n", name.c_str(), value < 100 ? 4 : 0, value, unit);
  std::fflush(stdout);
}

/// Returns the seconds for one call of `f`, all of whose work the GPU has done.
double seconds(at::Device device, int times, const std::function<void()>& f) {
  for (int i = 0; i < kWarmSteps; ++i) f();
  at::accelerator::synchronizeDevice(device.index());
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) f();
  at::accelerator::synchronizeDevice(device.index());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  return took.count() / times;
}

/// The tokens of a batch, and those that follow them.
struct Words {
  Words(at::Device device, std::int64_t batch)
      : all{torch::randint(kVocabulary, {batch, kTokens + 1},
                           torch::TensorOptions{}.dtype(torch::kLong).device(device))} {}
  Tensor all;
  Tensor x = all.narrow(1, 0, kTokens).contiguous();
  Tensor y = all.narrow(1, 1, kTokens).contiguous().flatten();
};

Gpt2 model_on(at::Device device) {
  torch::manual_seed(0);
  Gpt2 model;
  model->to(device);
  return model;
}

constexpr ml::AdamW kRule{.lr = 6e-4, .beta2 = 0.95};
constexpr double kDecay = 0.1;

/// A model, its optimizer and a batch.
class Training {
 public:
  Training(at::Device device, const Way& way, std::int64_t batch)
      : device_{device}, way_{way}, model_{model_on(device)}, words_{device, batch} {
    if (way.keeps_floats_beside) model_->to(torch::kBFloat16);
    optimizer_.emplace(ml::groups_of(*model_, kDecay), kRule);
  }
  /// Forward and backward.
  void learn() {
    optimizer_->zero_grad();
    {
      const ml::Autocast autocast{device_, way_.keeps_floats_beside ? ml::Precision::kFloat : ml::Precision::kBf16};
      loss_ = loss_of(model_, words_.x, words_.y);
    }
    loss_.backward();
  }
  void step() { optimizer_->step(); }
  /// A loss keeps the autograd graph of its step, and with it the stream to which gradients went.
  void let_go_of_loss() { loss_.reset(); }

  double loss() const { return loss_.item<double>(); }
  double operations_per_token() const { return operations(*model_); }

 private:
  at::Device device_;
  const Way& way_;
  Gpt2 model_;
  Words words_;
  std::optional<ml::Optimizer> optimizer_;
  Tensor loss_;
};

void measure(at::Device device, const Way& way, std::int64_t batch) {
  Training training{device, way, batch};
  const auto measure_as = [&](const std::string& name, const std::function<void()>& learn) {
    const double step = seconds(device, kSteps, [&] {
      learn();
      training.step();
    });
    const double rate = static_cast<double>(batch * kTokens) / step;
    const std::string of = name + "_batch_" + std::to_string(batch);
    print("gpt2_tokens_per_s_" + of, rate, "/s");
    print("gpt2_tflops_" + of, rate * training.operations_per_token() / 1e12, "TFLOPS");
    print("gpt2_loss_" + of, training.loss(), "nats");
  };
  measure_as(way.name, [&] { training.learn(); });
  training.let_go_of_loss();
  ml::Graph graph{device, [&] { training.learn(); }};
  measure_as(std::string{way.name} + "_graph", [&] { graph.run(); });
}

/// Prints the time of each kernel in a step with a batch of 32, the longest first.
void profile(at::Device device, std::string_view name) {
  namespace profiler = torch::profiler::impl;
  const auto* const way = std::ranges::find(kWays, name, [](const Way* each) { return each->name; });
  if (way == std::end(kWays)) throw std::runtime_error{"there is no way " + std::string{name}};
  Training training{device, **way, 32};
  const auto step = [&] {
    training.learn();
    training.step();
  };
  seconds(device, 1, step);
  constexpr int kProfiledSteps = 5;
  const profiler::ProfilerConfig config{profiler::ProfilerState::KINETO};
  const std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU, profiler::ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  for (int i = 0; i < kProfiledSteps; ++i) step();
  at::accelerator::synchronizeDevice(device.index());
  const auto recorded = torch::autograd::profiler::disableProfiler();

  struct Kernel {
    std::string name;
    double launches = 0;
    double us = 0;
  };
  std::map<std::string, Kernel> kernels;
  for (const auto& event : recorded->events()) {
    if (event.deviceType() != at::kCUDA) continue;
    Kernel& kernel = kernels[event.name()];
    kernel.launches += 1.0 / kProfiledSteps;
    kernel.us += static_cast<double>(event.durationNs()) / 1e3 / kProfiledSteps;
  }
  std::vector<Kernel> longest;
  for (auto& [kernel_name, kernel] : kernels) {
    kernel.name = kernel_name;
    longest.push_back(std::move(kernel));
  }
  std::ranges::sort(longest, std::greater{}, &Kernel::us);
  for (const Kernel& kernel : longest)
    std::printf("%9.1f us %7.1f launches  %s\n", kernel.us, kernel.launches, kernel.name.c_str());
}

// ---- Ranks that share the GPU

constexpr std::int64_t kBatchOfAll = 16;

/// Runs `f` on rank 0 while the others wait.
double alone(ml::Communicator& ranks, const std::function<double()>& f) {
  double result = ranks.rank() == 0 ? f() : 0;
  ranks.broadcast(std::span{&result, 1}, 0);
  return result;
}
/// Runs `f` on all ranks, and returns the longest time.
double together(ml::Communicator& ranks, const std::function<double()>& f) {
  ranks.barrier();
  double result = f();
  ranks.all_reduce(std::span{&result, 1}, ml::Reduction::kMax);
  return result;
}

/// Beside a copy on the GPU of the bytes that all ranks together read and write.
void measure_all_reduce(ml::Communicator& ranks, ml::Communicator& gpus, at::Device device) {
  constexpr int kTimes = 50;
  for (const std::size_t mebibytes : {1, 25, 256}) {
    const std::size_t bytes = mebibytes << 20;
    const auto data = gpus.allocate<float>(bytes / sizeof(float));
    const double reduced =
        together(ranks, [&] { return seconds(device, kTimes, [&] { gpus.begin_all_reduce(data.span()).join(); }); });
    const double copied = alone(ranks, [&] {
      const Tensor from = torch::zeros({static_cast<std::int64_t>(bytes * ranks.size())},
                                       torch::TensorOptions{}.dtype(torch::kByte).device(device));
      Tensor to = torch::zeros_like(from);
      return seconds(device, kTimes, [&] { to.copy_(from); });
    });
    if (ranks.rank() != 0) continue;
    const std::string of = std::to_string(mebibytes) + "_mib";
    print("all_reduce_us_" + of, reduced * 1e6, "us");
    print("limit_copy_us_" + of, copied * 1e6, "us");
    print("all_reduce_over_copy_" + of, copied / reduced, "");
  }
}

/// Tokens of all ranks in a second. `divide` makes the ranks work together, and returns the optimizer's groups and what
/// has to live as long as the training.
template <class Divide>
double train_together(ml::Communicator& ranks, at::Device device, bool in_half, const Divide& divide) {
  Gpt2 model = model_on(device);
  if (in_half) model->to(torch::kBFloat16);
  const auto divided = divide(*model);
  ml::Optimizer optimizer{divided->groups(kDecay), kRule};
  const Words words{device, kBatchOfAll / ranks.size()};
  const double step = together(ranks, [&] {
    return seconds(device, kSteps, [&] {
      optimizer.zero_grad();
      loss_of(model, words.x, words.y).backward();
      optimizer.step();
    });
  });
  return static_cast<double>(kBatchOfAll * kTokens) / step;
}

/// A copy of the model on each rank.
struct Copies {
  Copies(ml::Communicator& ranks, ml::Communicator& gpus, nn::Module& model) : module{model}, ddp{ranks, gpus, model} {}
  auto groups(double decay) const { return ml::groups_of(module, decay); }

  nn::Module& module;
  ml::Ddp ddp;
};

void measure_ranks(at::Device device) {
  ml::Communicator ranks = ml::Communicator::from_environment({.timeout = std::chrono::seconds{60}});
  ml::Communicator gpus = ml::communicator_on(device, ranks);
  measure_all_reduce(ranks, gpus, device);
  const double copies = train_together(ranks, device, true,
                                       [&](nn::Module& model) { return std::make_unique<Copies>(ranks, gpus, model); });
  const double divided = train_together(ranks, device, false, [&](nn::Module& model) {
    return std::make_unique<ml::Sharded>(model, ranks, gpus, ml::Sharding::kParameters,
                                         ml::ShardOptions{.param = ml::DType::kBF16});
  });
  const double one = alone(ranks, [&] {
    ml::Communicator self = ml::Communicator::alone();
    ml::Communicator own = ml::communicator_on(device, self);
    return train_together(self, device, true,
                          [&](nn::Module& model) { return std::make_unique<Copies>(self, own, model); });
  });
  if (ranks.rank() != 0) return;
  const std::string of = "_ranks_" + std::to_string(ranks.size());
  print("gpt2_tokens_per_s_one_rank", one, "/s");
  print("gpt2_tokens_per_s_copies" + of, copies, "/s");
  print("gpt2_tokens_per_s_fully_sharded" + of, divided, "/s");
  print("copies_over_one_rank" + of, copies / one, "");
  print("fully_sharded_step_over_copies" + of, copies / divided, "");
}

// ---- Actors and the object store

constexpr std::int64_t kCopiedBytes = std::int64_t{256} << 20;

void run_a_kernel(at::Device device) {
  const Tensor one = torch::ones({1}, torch::TensorOptions{}.device(device));
  if (one.add(1).item<float>() != 2) throw std::runtime_error{"the GPU adds 1 and 1 wrongly"};
}

class OnGpu {
 public:
  int run() {
    run_a_kernel(ml::own_device());
    return 0;
  }
};

ml::Array bytes_of_an_actor() {
  return ml::Array::of(std::vector<std::uint8_t>(kCopiedBytes, 1));
}

double seconds_of(const std::function<void()>& f) {
  const auto began = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// Starts this program anew, to run one kernel.
void run_a_kernel_in_a_program() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/proc/self/exe", "pharos-bench-gpu", "kernel", nullptr);
    ::_exit(127);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) throw std::runtime_error{"a program could use no GPU"};
}

/// From spawn() until the result of a kernel is there, beside the same in a program without Pharos.
void measure_first_kernel(pharos::Runtime& runtime) {
  constexpr int kTimes = 3;
  for (int i = 0; i < kTimes; ++i) {
    const double program = seconds_of(run_a_kernel_in_a_program);
    const double actor = seconds_of([&] {
      const auto on_gpu = runtime.spawn<OnGpu>({.gpus = 1});
      on_gpu.call<&OnGpu::run>({.deadline = pharos::Deadline::in(std::chrono::seconds{30})}).get();
    });
    print("gpu_actor_first_kernel_s", actor, "s");
    print("limit_program_first_kernel_s", program, "s");
  }
}

/// Copies to the GPU: from pinned memory, from ordinary memory, and from objects that another process has made.
void measure_copies(pharos::Runtime& runtime, at::Device device) {
  constexpr int kTimes = 20;
  const auto gigabytes_per_s = [&](const char* from, const std::function<void()>& copy) {
    const double rate = static_cast<double>(kCopiedBytes) / seconds(device, kTimes, copy) / 1e9;
    print(std::string{"host_to_device_"} + from, rate, "GB/s");
    return rate;
  };
  const auto bytes = torch::TensorOptions{}.dtype(torch::kByte);
  const Tensor pinned = torch::ones({kCopiedBytes}, bytes.pinned_memory(true));
  const Tensor ordinary = torch::ones({kCopiedBytes}, bytes);
  const std::vector<ml::Array> stored{runtime.submit<&bytes_of_an_actor>().get(),
                                      runtime.submit<&bytes_of_an_actor>().get()};
  const double registered = seconds_of([&] {
    if (ml::pin_stored(stored[0].bytes().span()) == nullptr)
      std::fprintf(stderr, "the driver takes no stored object\n");
  });
  print("host_to_device_stored_registered_ms", registered * 1e3, "ms");
  std::size_t next = 0;
  const double best = gigabytes_per_s("pinned", [&] { pinned.to(device, /*non_blocking=*/true); });
  gigabytes_per_s("ordinary", [&] { ordinary.to(device); });
  const double ours = gigabytes_per_s("stored", [&] { ml::tensor_of(stored[next++ % stored.size()], device); });
  print("host_to_device_stored_over_pinned", ours / best, "");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view what = argc < 2 ? "" : argv[1];
    if (what == "actors") {
      pharos::Runtime runtime;
      measure_first_kernel(runtime);
      measure_copies(runtime, ml::gpu(0));
      return 0;
    }
    const at::Device device = ml::gpu(0);
    if (what == "kernel") {
      run_a_kernel(device);
      return 0;
    }
    if (what == "profile" && argc == 3) {
      profile(device, argv[2]);
      return 0;
    }
    if (std::getenv("WORLD_SIZE") != nullptr) {
      measure_ranks(device);
      return 0;
    }
    for (const Way* const way : kWays) {
      for (const std::int64_t batch : {16, 32}) measure(device, *way, batch);
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pharos-bench-gpu: %s\n", e.what());
    return 1;
  }
}
