#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/space.hpp>

/// Searchers propose the parameters of a sweep's trials. A program can also use one without a Tuner:
///
///   const auto searcher = tpe(space, {.seed = 1});
///   for (std::uint64_t trial = 0; trial < 100; ++trial) {
///     const Params params = searcher->ask(trial);
///     searcher->began(trial, params);
///     searcher->tell(trial, {.value = loss(params)});
///   }
namespace pharos::ml {

/// The outcome of a trial that has ended, as a searcher learns it.
struct Outcome {
  enum class State : std::uint8_t {
    kComplete,
    kStopped,  ///< stopped early: `value` is the last report, made at `step`
    kFailed,   ///< no result: the searcher learns nothing from the trial
  };

  State state = State::kComplete;
  double value = 0;  ///< Less is better; a sweep that maximises passes the negated metric.
  std::uint64_t step = 0;
  /// One number for each constraint of the sweep; a number above zero means that the constraint is violated.
  std::vector<double> constraints{};
};

/// Proposes the parameters of trials. Pure: a proposal follows from the seed, the trial's number, and the calls of
/// began() and tell() in their order. A call of ask() has no effect on later proposals, so a sweep can be replayed from
/// its journal. The tuner owns its searcher, and one thread at a time may use it. What a searcher throws ends the
/// sweep: Tuner::run() throws it. But if the second ask() throws InvalidArgument, only the trial that asks fails. The
/// searchers below keep a copy of the space.
class PHAROS_API Searcher {
 public:
  Searcher() = default;
  Searcher(Searcher&&) = delete;
  virtual ~Searcher();

  /// Returns the parameters that the trial is to try: each parameter of the space that is active given the others. It
  /// may add parameters that earlier trials asked for as they ran.
  virtual Params ask(std::uint64_t trial) = 0;
  /// Returns one value, for a parameter that the trial asks for as it runs and that the space need not have. Searchers
  /// may throw InvalidArgument if the name had another domain before.
  virtual Value ask(std::uint64_t trial, std::string_view name, const Domain& domain) = 0;
  /// The trial runs with these parameters, which need not be the proposed ones, but must lie in their domains:
  /// searchers do not check them. Called again when the trial has asked for further parameters.
  virtual void began(std::uint64_t trial, const Params& params) = 0;
  /// The trial has ended. Called at most once for each trial that began. NaN as a value counts as kFailed.
  virtual void tell(std::uint64_t trial, const Outcome& outcome) = 0;
  /// Returns false if proposals do not depend on outcomes. The tuner may then ask for trials before their turn.
  virtual bool learns() const { return true; }
};

/// Samples each trial at random, independently of the others. It samples the values of grids, too.
PHAROS_API std::unique_ptr<Searcher> random_search(const Space& space, std::uint64_t seed = 0);

/// Gives trial n the combination n of the values of all grids, and begins with the first combination again when all
/// have been tried. Parameters that are no grids are sampled at random. Throws InvalidArgument as grid_size().
PHAROS_API std::unique_ptr<Searcher> grid_search(const Space& space, std::uint64_t seed = 0);
/// Returns the number of combinations of the grids' values. Throws InvalidArgument if there are more than a million.
PHAROS_API std::uint64_t grid_size(const Space& space);

/// Fills the space evenly, whatever the number of trials is (a Sobol sequence). Throws InvalidArgument if the space has
/// more than 3667 parameters.
PHAROS_API std::unique_ptr<Searcher> sobol_search(const Space& space, std::uint64_t seed = 0);

/// The tree-structured Parzen estimator as in Optuna 5. It samples candidates from where good trials are dense, and
/// takes the candidate where good trials are densest in comparison with all other trials. Running trials count among
/// the others. Parameters that always occur together are sampled together.
struct TpeOptions {
  std::uint64_t seed = 0;
  std::uint64_t startup = 10;   ///< trials are sampled at random until this many have ended with a value
  std::size_t candidates = 24;  ///< points that are sampled for each proposal; at least 1
};
/// Throws InvalidArgument if the options make no sense.
PHAROS_API std::unique_ptr<Searcher> tpe(const Space& space, const TpeOptions& options = {});

/// The evolution strategy with covariance matrix adaptation (CMA-ES), for many trials over numbers. Choices and
/// conditional parameters are sampled at random. It learns from complete trials only.
struct CmaEsOptions {
  std::uint64_t seed = 0;
  double sigma = 1.0 / 6;  ///< standard deviation of the first trials, as a share of each range; above 0
  /// Trials of a generation: at least 2. 0: a size that suits the number of parameters.
  std::size_t population = 0;
  /// True: when there is nothing more to gain, the search begins again at a random point, with twice the population.
  bool restarts = true;
};
/// Throws InvalidArgument if the options make no sense.
PHAROS_API std::unique_ptr<Searcher> cma_es(const Space& space, const CmaEsOptions& options = {});

}  // namespace pharos::ml
