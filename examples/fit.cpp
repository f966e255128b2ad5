// The shortest training: two processes fit a line together. Each has a copy of the line and half of the points.

#include <torch/torch.h>

#include <iostream>

#include <pharos/ml/fit.hpp>
#include <pharos/pharos.hpp>

namespace ml = pharos::ml;

class Line : public ml::Learner {
 public:
  torch::nn::Module& module() override { return *line_; }
  ml::DatasetPtr training_data() override {  // y = 3x + 1
    const torch::Tensor x = torch::linspace(-1, 1, 1024).unsqueeze(1);
    return ml::rows_of({{"x", ml::array_of(x)}, {"y", ml::array_of(3 * x + 1)}});
  }
  torch::Tensor training_step(const ml::Batch& batch) override {
    return torch::mse_loss(line_(ml::tensor_of(batch["x"])), ml::tensor_of(batch["y"]));
  }
  ml::Optimization configure_optimizers() override { return {.rule = ml::Sgd{.lr = 0.1}}; }

 private:
  torch::nn::Linear line_{1, 1};
};

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  ml::Trainer trainer{runtime, {.scaling = {.workers = 2}}};
  const ml::TrainResult result = ml::fit<Line>(trainer, {.batch = 16, .epochs = 5});
  std::cout << result.to_text_picture() << "the last loss: " << *result.last("loss") << '\n';
}
