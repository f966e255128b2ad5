#include "library.hpp"

#include <dlfcn.h>

#include <mutex>
#include <utility>

#include <pharos/actors/exceptions.hpp>

#include "search.hpp"

namespace pharos::ml::xgboost {
namespace {

constexpr const char* kHowToInstall =
    "Install it (apt install libxgboost0, or pip install xgboost-cpu), or name its libxgboost.so in PHAROS_XGBOOST.";

/// Looks functions up, and remembers the name of the first one that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_{library} {}

  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string path_of(const void* function) {
  Dl_info where{};
  return ::dladdr(function, &where) != 0 && where.dli_fname != nullptr ? where.dli_fname : "";
}

std::string version_of(const Installed& installed) {
  return std::to_string(installed.major) + "." + std::to_string(installed.minor) + "." +
         std::to_string(installed.patch);
}

Result<Library> functions_of(void* file, const std::string& place) {
  Library library;
  Symbols symbols{file};
  symbols.find("XGBoostVersion", library.version);
  if (!symbols.missing().empty()) {
    return Error{ErrorCode::kUnsupported,
                 place + " is not an XGBoost library: it lacks the function " + symbols.missing(), kHowToInstall};
  }
  Installed& installed = library.installed;
  library.version(&installed.major, &installed.minor, &installed.patch);
  installed.path = path_of(reinterpret_cast<const void*>(library.version));
  symbols.find("XGBGetLastError", library.last_error);
  symbols.find("XGBRegisterLogCallback", library.register_log);
  symbols.find("XGProxyDMatrixCreate", library.create_proxy);
  symbols.find("XGProxyDMatrixSetDataDense", library.set_proxy_rows);
  symbols.find("XGQuantileDMatrixCreateFromCallback", library.create_matrix);
  symbols.find("XGDMatrixSetInfoFromInterface", library.set_numbers);
  symbols.find("XGDMatrixSetStrFeatureInfo", library.set_texts);
  symbols.find("XGDMatrixFree", library.free_matrix);
  symbols.find("XGBoosterCreate", library.create_booster);
  symbols.find("XGBoosterFree", library.free_booster);
  symbols.find("XGBoosterSetParam", library.set_parameter);
  symbols.find("XGBoosterUpdateOneIter", library.train_round);
  symbols.find("XGBoosterEvalOneIter", library.measure_round);
  symbols.find("XGBoosterPredictFromDMatrix", library.predict_matrix);
  symbols.find("XGBoosterPredictFromDense", library.predict_rows);
  symbols.find("XGBoosterSaveModelToBuffer", library.save_model);
  symbols.find("XGBoosterLoadModelFromBuffer", library.load_model);
  symbols.find("XGBoosterBoostedRounds", library.count_rounds);
  symbols.find("XGBoosterGetNumFeature", library.count_columns);
  symbols.find("XGBoosterSlice", library.slice_rounds);
  library.openmp_threads = reinterpret_cast<int (*)()>(::dlsym(file, "omp_get_max_threads"));
  library.set_openmp_threads = reinterpret_cast<void (*)(int)>(::dlsym(file, "omp_set_num_threads"));
  if (!symbols.missing().empty()) {
    return Error{
        ErrorCode::kUnsupported,
        installed.path + " is XGBoost " + version_of(installed) + ", which lacks the function " + symbols.missing(),
        "Use 1.7 or later."};
  }
  return library;
}

}  // namespace

Result<void> Library::check(int status, std::string_view attempted) const {
  if (status == 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               "XGBoost " + version_of(installed) + " reports an error: " + readable(last_error())}
      .with(std::string{attempted});
}

Result<Library> load(const std::vector<std::string>& places) {
  std::string reasons;
  for (const std::string& place : places) {
    // RTLD_LOCAL keeps its symbols apart: a program may have loaded another OpenMP, or the classes of another XGBoost.
    if (void* const file = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      auto functions = functions_of(file, place);
      // Once the library is in use it is never unloaded, because OpenMP's threads run its code.
      if (!functions) ::dlclose(file);
      return functions;
    }
    reasons += std::string{reasons.empty() ? "" : "; "} + ::dlerror();
  }
  return Error{ErrorCode::kNotFound, "XGBoost cannot be loaded: " + reasons, kHowToInstall};
}

Result<const Library*> library() {
  static std::mutex mutex;
  static std::optional<Library> loaded;
  const std::lock_guard lock{mutex};
  if (!loaded) {
    PHAROS_TRY(loaded, load(places_to_look()));
  }
  return &*loaded;
}

std::string readable(std::string_view said) {
  if (const auto stack = said.find("\nStack trace:"); stack != std::string_view::npos) said = said.substr(0, stack);
  if (said.starts_with('[') && said.find("] ") == 9) said.remove_prefix(11);  // [12:34:56]
  // The message may begin with a place: "/path/of/a_file.cc:123: ".
  const auto line = said.substr(0, said.find('\n'));
  for (const std::string_view ending : {".cc:", ".cu:", ".h:"}) {
    const auto file = line.find(ending);
    const auto end = file == std::string_view::npos ? file : line.find(": ", file + ending.size());
    if (end == std::string_view::npos || line.substr(0, file).find(' ') != std::string_view::npos) continue;
    said.remove_prefix(end + 2);
    break;
  }
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.remove_suffix(1);
  return std::string{said};
}

Installed installed() {
  auto found = library();
  if (!found) throw_error(std::move(found).error());
  return (*found)->installed;
}

}  // namespace pharos::ml::xgboost
