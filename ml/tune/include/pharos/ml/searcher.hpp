#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>

/// What proposes the parameters of a sweep's trials. Usable alone:
///
///   const auto searcher = tpe(space, {.seed = 1});
///   for (std::uint64_t trial = 0; trial < 100; ++trial) {
///     const Params params = searcher->ask(trial);
///     searcher->began(trial, params);
///     searcher->tell(trial, {.value = loss(params)});
///   }
namespace pharos::ml {

/// How a trial has ended. Less is better.
struct Outcome {
  enum class State : std::uint8_t {
    kComplete,
    kStopped,  ///< early: `value` is its last report, in `step`
    kFailed,   ///< there is nothing to learn from it
  };

  State state = State::kComplete;
  double value = 0;
  std::uint64_t step = 0;
  /// What is above zero is a constraint that does not hold.
  std::vector<double> constraints{};
};

/// Pure: what it proposes follows from its seed, the trial's number and what it has been told, in that order; asking
/// changes nothing. One thread.
class PHAROS_API Searcher {
 public:
  Searcher() = default;
  Searcher(Searcher&&) = delete;
  virtual ~Searcher();

  /// What that trial is to try: all parameters of the space that are there given the others.
  virtual Params ask(std::uint64_t trial) = 0;
  /// A parameter that the space does not have, for a trial that asks as it runs.
  virtual Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) = 0;
  /// The trial runs with these, whoever has proposed them. Again, when it has asked for more.
  virtual void began(std::uint64_t trial, const Params& params) = 0;
  /// Once for each that began.
  virtual void tell(std::uint64_t trial, const Outcome& outcome) = 0;
  /// False: what it proposes does not depend on what it is told, so that nothing is lost by asking early.
  virtual bool learns() const { return true; }
};

/// Each trial by itself. Grids are drawn from, too.
PHAROS_API std::unique_ptr<Searcher> random_search(const Space& space, std::uint64_t seed = 0);

/// Trial n has the combination n of all grids' values, from the first again when all have been; the rest at random.
PHAROS_API std::unique_ptr<Searcher> grid_search(const Space& space, std::uint64_t seed = 0);
/// How many combinations there are. Throws InvalidArgument when they are more than a million.
PHAROS_API std::uint64_t grid_size(const Space& space);

/// Trials that fill the space evenly, however many there are (Sobol).
PHAROS_API std::unique_ptr<Searcher> sobol_search(const Space& space, std::uint64_t seed = 0);

/// The tree-structured Parzen estimator as Optuna 5 has it: parameters that come together are drawn together, from
/// where good trials are dense beside all others. Those that run count as others.
struct TpeOptions {
  std::uint64_t seed = 0;
  std::uint64_t startup = 10;   ///< trials at random, until so many have ended
  std::size_t candidates = 24;  ///< of which the best is taken
};
PHAROS_API std::unique_ptr<Searcher> tpe(const Space& space, const TpeOptions& options = {});

/// Covariance matrix adaptation: for many trials of numbers. Choices, and what is there only sometimes, are drawn at
/// random. When there is nothing more to gain where it is it begins elsewhere, with twice the population.
struct CmaEsOptions {
  std::uint64_t seed = 0;
  double sigma = 1.0 / 6;      ///< of the first trials, as a share of each range
  std::size_t population = 0;  ///< 0: as many as the parameters want
  bool restarts = true;
};
PHAROS_API std::unique_ptr<Searcher> cma_es(const Space& space, const CmaEsOptions& options = {});

}  // namespace pharos::ml
