// A parameter server: an actor holds the weights of a model. Tasks, each with data of its own, ask the actor for the
// weights and push a gradient whenever they have one, without waiting for each other. Shows a handle as the argument of
// a task. The model is linear, and the data are made from known weights with noise, so the loss has a known floor.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

constexpr int kWorkers = 4;
constexpr int kRounds = 10;
constexpr int kStepsPerRound = 8;
constexpr int kRowsPerWorker = 500;
constexpr double kNoise = 0.1;
constexpr double kRate = 0.01;
constexpr std::array kTrueWeights{2.0, -1.0, 0.5, 3.0, -2.5, 0.25, 1.5, -0.75};

class ParameterServer {
 public:
  explicit ParameterServer(std::size_t size) : weights_(size) {}

  std::vector<double> weights() const { return weights_; }
  void push(const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= kRate * gradient[i];
    ++pushes_;
  }
  int pushes() const { return pushes_; }

 private:
  std::vector<double> weights_;
  int pushes_ = 0;
};

struct Row {
  std::vector<double> x;
  double y = 0;
};

/// Returns the same rows for the same seed. So each worker makes its part of the data in its own process.
std::vector<Row> make_rows(unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<double> normal;
  std::vector<Row> rows(kRowsPerWorker);
  for (Row& row : rows) {
    row.y = kNoise * normal(random);
    for (const double weight : kTrueWeights) {
      row.x.push_back(normal(random));
      row.y += weight * row.x.back();
    }
  }
  return rows;
}

double error_of(const Row& row, const std::vector<double>& weights) {
  double predicted = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) predicted += weights[i] * row.x[i];
  return predicted - row.y;
}

std::vector<double> gradient(const std::vector<Row>& rows, const std::vector<double>& weights) {
  std::vector<double> sum(weights.size());
  for (const Row& row : rows) {
    const double scale = 2 * error_of(row, weights) / kRowsPerWorker;
    for (std::size_t i = 0; i < weights.size(); ++i) sum[i] += scale * row.x[i];
  }
  return sum;
}

/// Does a worker's share of one round.
void train(const pharos::Actor<ParameterServer>& server, unsigned seed) {
  const std::vector<Row> rows = make_rows(seed);
  for (int step = 0; step < kStepsPerRound; ++step) {
    const std::vector<double> weights = server.call<&ParameterServer::weights>().get();
    server.call<&ParameterServer::push>(gradient(rows, weights)).get();
  }
}

double mean_squared_error(const std::vector<double>& weights) {
  const std::vector<Row> unseen = make_rows(kWorkers + 1);
  double sum = 0;
  for (const Row& row : unseen) sum += std::pow(error_of(row, weights), 2);
  return sum / kRowsPerWorker;
}

// Draws the loss on a logarithmic scale, on which a good run is a straight line.
void show(int round, double loss) {
  const double length = std::clamp(12 * std::log10(loss / (kNoise * kNoise)), 0.0, 60.0);
  std::printf("round %2d   loss %8.4f  %s\n", round, loss, std::string(static_cast<std::size_t>(length), '#').c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};
  const auto server = runtime.spawn<ParameterServer>({.name = "parameters"}, kTrueWeights.size());

  std::vector<double> weights = server.call<&ParameterServer::weights>().get();
  double loss = mean_squared_error(weights);
  show(0, loss);
  for (int round = 1; round <= kRounds; ++round) {
    std::vector<pharos::Ref<void>> workers;
    for (unsigned seed = 1; seed <= kWorkers; ++seed) workers.push_back(runtime.submit<&train>(server, seed));
    for (const auto& worker : workers) worker.get();
    weights = server.call<&ParameterServer::weights>().get();
    loss = mean_squared_error(weights);
    show(round, loss);
  }

  std::printf("\nweights learned:");
  for (const double weight : weights) std::printf(" %6.3f", weight);
  std::printf("\n   that made it:");
  for (const double weight : kTrueWeights) std::printf(" %6.3f", weight);
  const int pushes = server.call<&ParameterServer::pushes>().get();
  std::printf("\nthe rows were drawn by this program; the noise alone is a loss of %.4f; %d gradients were pushed\n",
              kNoise * kNoise, pushes);
  return loss < 1.5 * kNoise * kNoise && pushes == kWorkers * kRounds * kStepsPerRound ? 0 : 1;
}
