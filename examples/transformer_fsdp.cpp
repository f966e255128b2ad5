// A transformer learns a text, byte by byte. Each rank keeps only a part of the parameters: the parameters of a block
// are gathered when the block computes, and released afterwards. `Reader` defines the model, the data and the loss;
// ml::fit() does the rest. With another FitOptions::strategy each rank has a copy of the transformer, or less of it is
// divided. Any number of ranks may share a batch. The result of the training is always the same.
//
//   pharos-transformer-fsdp --ranks 2 --picture loss.svg
//   pharos-transformer-fsdp --text war_and_peace.txt --steps 1000 --folder runs/tolstoy
//   pharos-transformer-fsdp --strategy copies --kill-at 80
//   pharos-transformer-fsdp --strategy copies --gpus 1
//
// If the program ends, by Ctrl-C or in another way, and is started again with the same folder, the training continues
// from its last checkpoint.

#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/ml/fit.hpp>
#include <pharos/ml/recompute.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace {

namespace ml = pharos::ml;
namespace nn = torch::nn;
using torch::Tensor;

constexpr std::int64_t kBytes = 256;  // number of possible bytes: the vocabulary
constexpr std::int64_t kContext = 64;
constexpr std::int64_t kWidth = 320;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kBlocks = 8;
constexpr std::size_t kBatch = 4;         // windows in a step, of all ranks together
constexpr std::uint64_t kValidated = 16;  // windows
constexpr std::uint64_t kSaveEvery = 20;  // steps
constexpr double kTemperature = 0.5;      // of the text that it writes: below 1, likely bytes become likelier
constexpr std::size_t kTokenBytes = sizeof(std::uint16_t);
constexpr std::size_t kMadeUpBytes = 1 << 18;  // length of the text that this program makes up

// ---- The model

class BlockImpl : public nn::Module {
 public:
  Tensor forward(const Tensor& x) {
    const Tensor attended = x + attend(norm1_(x));
    return attended + down_(torch::gelu(up_(norm2_(attended))));
  }

 private:
  /// Lets each byte attend to itself and to the bytes before it.
  Tensor attend(const Tensor& x) {
    const auto by_head = [&](const Tensor& part) {
      return part.view({x.size(0), x.size(1), kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const std::vector<Tensor> parts = attention_(x).chunk(3, 2);
    const Tensor seen = torch::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {},
                                                            /*dropout_p=*/0, /*is_causal=*/true);
    return projection_(seen.transpose(1, 2).reshape(x.sizes()));
  }

  nn::LayerNorm norm1_ = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear attention_ = register_module("attention", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear projection_ = register_module("projection", nn::Linear(kWidth, kWidth));
  nn::LayerNorm norm2_ = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear up_ = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down_ = register_module("down", nn::Linear(4 * kWidth, kWidth));
};
TORCH_MODULE(Block);

class TransformerImpl : public nn::Module {
 public:
  /// With `recomputes` a block's activations are not kept for backward: less memory, and a third more time.
  explicit TransformerImpl(bool recomputes) : recomputes_{recomputes} {
    for (std::int64_t i = 0; i < kBlocks; ++i) blocks_->push_back(Block{});
  }

  /// Returns, for each token, the scores of all tokens that may come next.
  Tensor forward(const Tensor& tokens) {
    Tensor x = tokens_(tokens) + places_(torch::arange(tokens.size(1), tokens.device()));
    for (const auto& each : *blocks_) {
      const auto block = std::static_pointer_cast<BlockImpl>(each);
      x = recomputes_ ? ml::checkpoint([block](const Tensor& in) { return block->forward(in); }, x) : block->forward(x);
    }
    return scores_(norm_(x));
  }

 private:
  const bool recomputes_;
  nn::Embedding tokens_ = register_module("tokens", nn::Embedding(kBytes, kWidth));
  nn::Embedding places_ = register_module("places", nn::Embedding(kContext, kWidth));
  nn::ModuleList blocks_ = register_module("blocks", nn::ModuleList());  // each is gathered and released
  nn::LayerNorm norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear scores_ = register_module("scores", nn::Linear(kWidth, kBytes));
};
TORCH_MODULE(Transformer);

// ---- The training

class Reader : public ml::Learner {
 public:
  /// The last rank is ended by `kill -9` in step `killed_at`, or never if that is 0.
  Reader(const pharos::Bytes& learned, const pharos::Bytes& held_out, bool recomputes, std::uint64_t killed_at)
      : learned_{learned, kTokenBytes},
        held_out_{held_out, kTokenBytes},
        transformer_{recomputes},
        killed_at_{killed_at} {}

  nn::Module& module() override { return *transformer_; }
  ml::DatasetPtr training_data() override { return ml::windows_of(learned_, kContext, 1); }  // from each byte on
  ml::DatasetPtr validation_data() override {
    const auto all = ml::windows_of(held_out_, kContext);
    return ml::part_of(all, 0, std::min(all->size(), kValidated));
  }
  Tensor training_step(const ml::Batch& batch) override {
    if (context().step() + 1 == killed_at_ && context().rank() + 1 == context().size() && is_first_life()) {
      std::printf("kill -9 %d: rank %u, in step %ju\n", ::getpid(), context().rank(), killed_at_);
      std::fflush(stdout);
      ::kill(::getpid(), SIGKILL);
    }
    const Tensor scores = transformer_(on_device(batch, "tokens"));
    return torch::cross_entropy_loss(scores.flatten(0, 1), on_device(batch, "next").flatten());
  }
  ml::Optimization configure_optimizers() override {
    const std::uint64_t steps = context().expected_steps();
    return {.rule = ml::AdamW{.lr = 2e-3, .beta2 = 0.95},
            .weight_decay = 0.1,
            .schedule = ml::warm_up(steps / 10, ml::cosine(steps - steps / 10, 0.1)),
            .clip_norm = 1};
  }

 private:
  /// Returns false for a process that was started because another one died.
  bool is_first_life() { return context().attempt() == 0 && !context().is_replacement(); }

  const ml::Tokens learned_;
  const ml::Tokens held_out_;
  Transformer transformer_;
  const std::uint64_t killed_at_;
};

// ---- Texts

/// Returns sentences of a small grammar. Each capital letter stands for one of the texts beside it.
std::string made_up_text() {
  static const std::map<char, std::vector<std::string_view>> kGrammar{
      {'S', {"T V T.", "T V T and V T.", "when T V T, T V T."}},
      {'T', {"the C", "the A C", "the C with the red hat"}},
      {'A', {"small", "brave", "quiet"}},
      {'C', {"fox", "sailor", "bear", "queen", "owl"}},
      {'V', {"sees", "follows", "remembers", "hides from"}}};
  std::mt19937 random{1};
  std::string text;
  while (text.size() < kMadeUpBytes) {
    std::string sentence{"S\n"};
    for (std::size_t at = 0; at < sentence.size();) {
      const auto found = kGrammar.find(sentence[at]);
      if (found == kGrammar.end()) {
        ++at;
      } else {
        sentence.replace(at, 1, found->second[random() % found->second.size()]);
      }
    }
    text += sentence;
  }
  return text;
}

pharos::Bytes tokens_of(std::string_view text) {
  const std::vector<std::uint16_t> tokens{reinterpret_cast<const unsigned char*>(text.data()),
                                          reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
  return pharos::Bytes::copy_of(std::as_bytes(std::span{tokens}));
}

/// Returns the least possible loss, in nats, of a model that knows only how often each byte occurs.
double entropy_of_bytes(std::string_view text) {
  std::array<double, kBytes> counts{};
  for (const char each : text) ++counts[static_cast<unsigned char>(each)];
  double entropy = 0;
  for (const double count : counts) {
    const double share = count / static_cast<double>(text.size());
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

// ---- The program

struct Options {
  std::size_t ranks = 2;
  std::size_t steps = 160;
  ml::FitStrategy strategy = ml::FitStrategy::kFullyShard;
  bool recomputes = false;
  std::size_t killed_at = 0;
  double gpus = 0;
  std::string text{};
  std::string folder{};
  std::string picture{};
};

constexpr std::string_view kUsage = R"(usage: pharos-transformer-fsdp [OPTION…]

Trains a transformer of ten million parameters to say which byte comes next in a text.

  --ranks N        processes that train it together (2)
  --steps N        of the optimizer (160)
  --strategy NAME  what the ranks divide: fsdp (all), zero2, zero1, copies (nothing), auto (by their memory)
  --kill-at STEP   the last rank is ended by kill -9 in this step; by copies the others go on with the same step
  --gpus N         each rank reserves so many GPUs and trains on the first, by copies; 0.5: two ranks share one (0)
  --recompute      blocks compute once more in backward, and keep nothing for it
  --text FILE      what it learns; without, a text that this program makes up by a small grammar
  --folder DIR     for checkpoints, each 20 steps; what is there is gone on with
  --picture FILE   the loss, as SVG

examples:
  pharos-transformer-fsdp
  pharos-transformer-fsdp --ranks 4 --strategy auto
  pharos-transformer-fsdp --strategy copies --kill-at 80 --picture loss.svg
  pharos-transformer-fsdp --text war_and_peace.txt --steps 1000 --folder runs/tolstoy
)";

std::string text_of(const std::string& file) {
  std::ifstream stream{file, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{stream}, {}};
  if (!stream.is_open() || text.size() < 100 * kContext) {
    throw std::runtime_error{file + " cannot be read, or has too little to learn from"};
  }
  return text;
}

/// Continues a text by the trained model, until it has so many bytes. The model is loaded into this process from the
/// parts that all ranks have saved in the newest checkpoint.
std::string written_by_newest_in(const std::string& folder, std::string text, std::size_t bytes) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  Transformer transformer{/*recomputes=*/false};
  ml::load_arrays(*transformer, ml::tensors_of_checkpoint(ml::checkpoints_in(folder + "/checkpoints").at(0).path));
  while (text.size() < bytes) {
    const auto seen = std::min(static_cast<std::int64_t>(text.size()), kContext);
    const Tensor tokens = torch::from_blob(text.data() + text.size() - seen, {1, seen}, torch::kByte).to(torch::kLong);
    const Tensor scores = transformer(tokens).select(0, 0).select(0, -1);
    text += static_cast<char>(torch::multinomial(torch::softmax(scores / kTemperature, 0), 1).item<std::int64_t>());
  }
  return text;
}

/// Prints the results. Returns true if the model knows more than how often each byte occurs.
bool show(const ml::TrainResult& result, double least_by_frequencies, bool is_made_up) {
  const ml::TrainReport& first = result.reports.front();
  const double validation_loss = *result.last("validation_loss");
  std::printf("\n%s\n", result.to_text_picture().c_str());
  std::printf("training loss    %.3f at step %ju, %.3f at step %ju\n", *first.metrics.find("loss"), first.step,
              *result.last("loss"), result.steps);
  std::printf("validation loss  %.3f nats a byte; who knows nothing but how often each byte comes has %.3f\n",
              validation_loss, least_by_frequencies);
  std::printf("speed            %.1f samples/s, of %jd bytes each\n", *result.mean("samples_per_second"), kContext);
  if (is_made_up) std::printf("The text was made up by this program, by a small grammar; --text FILE takes another.\n");
  return validation_loss < 0.9 * least_by_frequencies;
}

ml::TrainResult train(pharos::Runtime& runtime, const Options& options, std::string_view text, std::size_t learned) {
  const std::size_t batch = std::max<std::size_t>(kBatch / options.ranks, 1);
  ml::Trainer trainer{runtime,
                      {.name = "transformer",
                       .scaling = {.workers = options.ranks,
                                   .cpus_per_worker = 0,  // there may be more ranks than cores
                                   .gpus_per_worker = options.gpus},
                       .seed = 1,
                       .folder = options.folder,
                       .save_every = options.folder.empty() ? 0 : kSaveEvery}};
  // The tokens lie in shared memory once, and all ranks read them there.
  const pharos::Ref<pharos::Bytes> tokens = runtime.put(tokens_of(text));
  return ml::fit<Reader>(trainer, {.batch = batch, .epochs = 0, .steps = options.steps, .strategy = options.strategy},
                         tokens.slice(0, kTokenBytes * learned),
                         tokens.slice(kTokenBytes * learned, kTokenBytes * (text.size() - learned)), options.recomputes,
                         std::uint64_t{options.killed_at});
}

int run(pharos::Runtime& runtime, const Options& options) {
  torch::set_num_threads(1);
  const std::string text = options.text.empty() ? made_up_text() : text_of(options.text);
  const std::size_t learned = text.size() / 10 * 9;
  std::int64_t parameters = 0;
  for (const Tensor& each : Transformer(false)->parameters()) parameters += each.numel();
  std::printf("A transformer of %.1f million parameters learns %zu bytes of text on %zu ranks:\n%s.\n",
              static_cast<double>(parameters) / 1e6, learned, options.ranks,
              std::string{ml::summary_of(options.strategy)}.c_str());
  std::printf("The text begins: %s\n", text.substr(0, std::min<std::size_t>(text.find('\n'), 80)).c_str());
  std::fflush(stdout);

  const ml::TrainResult result = train(runtime, options, text, learned);
  const bool draws = !options.picture.empty() && !result.reports.empty();
  if (draws) examples::write(options.picture, result.to_svg());
  if (result.end == ml::TrainResult::End::kInterrupted) {
    std::printf("Interrupted at step %ju.%s\n", result.steps,
                options.folder.empty() ? "" : " Started again with the same folder, it goes on from there.");
    return 130;
  }
  bool is_right = true;
  if (result.reports.empty()) {
    std::printf("%s has all %ju steps already: nothing is left to do.\n", options.folder.c_str(), result.steps);
  } else {
    is_right = show(result, entropy_of_bytes(std::string_view{text}.substr(learned)), options.text.empty());
    if (draws) std::printf("\nThe loss as a picture: %s\n", options.picture.c_str());
  }
  if (!options.folder.empty()) {
    const std::string begin = text.substr(learned, kContext);
    const std::string whole = written_by_newest_in(options.folder, begin, 3 * kContext);
    std::printf("\nIt goes on, after the bar, with what it has not seen:\n%s|%s\n", begin.c_str(),
                whole.c_str() + begin.size());
  }
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return examples::run_program(argc, argv, kUsage,
                               {{"--ranks", &options.ranks},
                                {"--steps", &options.steps},
                                {"--strategy",
                                 [&](std::string_view name) {
                                   const auto strategy = ml::strategy_named(name);
                                   options.strategy = strategy.value_or(options.strategy);
                                   return strategy.has_value();
                                 }},
                                {"--kill-at", &options.killed_at},
                                {"--gpus", &options.gpus},
                                {"--recompute", &options.recomputes},
                                {"--text", &options.text},
                                {"--folder", &options.folder},
                                {"--picture", &options.picture}},
                               [&](pharos::Runtime& runtime) { return run(runtime, options); });
}
