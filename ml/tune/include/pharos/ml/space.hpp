#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>

/// What a sweep may try: parameters by name, and what each may be.
///
///   Space space{{"eta", log_uniform(1e-4, 1e-1)}, {"depth", integers(3, 9)}, {"booster", choice({"gbtree", "dart"})}};
///   space.when("booster", "dart", Space{{"rate_drop", uniform(0, 0.5)}});
///
/// Or a struct that says so itself, and is read from what a trial is to try:
///
///   struct Model {
///     double eta;
///     int depth;
///     void fields(ml::Fields& f) {
///       f("eta", eta, ml::log_uniform(1e-4, 1e-1));
///       f("depth", depth, ml::integers(3, 9));
///     }
///   };
///   space_of<Model>();  read<Model>(params).depth;
namespace pharos::ml {

/// A value of a parameter.
using Value = std::variant<bool, std::int64_t, double, std::string>;
PHAROS_API std::string to_string(const Value& value);

/// What a trial tries: values by name, in the order of the space. Text and JSON show them in that order, too.
class PHAROS_API Params {
 public:
  using Entry = std::pair<std::string, Value>;

  Params() = default;
  Params(std::initializer_list<Entry> entries);

  /// Throws NotFound with the names that there are, or InvalidArgument where it is something else. A double may be
  /// given as a whole number.
  template <class T>
  T get(std::string_view name) const;
  const Value* find(std::string_view name) const;
  /// Instead of the one that is there.
  void set(std::string_view name, Value value);

  const std::vector<Entry>& entries() const& { return entries_; }
  std::vector<Entry> entries() && { return std::move(entries_); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Params&) const = default;

  /// "eta=0.01 depth=6"
  std::string to_string() const;
  std::string to_json() const;
  auto pharos_fields() { return std::tie(entries_); }
  static Result<Params> from_json(std::string_view json);

 private:
  bool get_bool(std::string_view name) const;
  std::int64_t get_integer(std::string_view name, std::int64_t min, std::uint64_t max) const;
  double get_double(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;

  std::vector<Entry> entries_;
};

/// What a parameter may be. Made by the functions below, which throw InvalidArgument where it makes no sense.
struct Domain {
  enum class Kind : std::uint8_t { kReal, kInteger, kNormal, kChoice };

  Kind kind = Kind::kReal;
  double low = 0;   ///< of kNormal: the mean
  double high = 1;  ///< included, but of a real that has no step; of kNormal: the standard deviation
  double step = 0;  ///< of reals and integers: multiples of it from `low` on; 0: any
  bool log = false;
  bool grid = false;  ///< each of the choices is tried
  std::vector<Value> choices{};

  /// There is no more than one value.
  bool is_fixed() const;
  bool holds(const Value& value) const;
  bool operator==(const Domain&) const = default;
};

PHAROS_API Domain uniform(double low, double high);
PHAROS_API Domain log_uniform(double low, double high);
/// low, low + step, ... up to high.
PHAROS_API Domain quantised(double low, double high, double step);
PHAROS_API Domain integers(std::int64_t low, std::int64_t high, std::int64_t step = 1);
PHAROS_API Domain log_integers(std::int64_t low, std::int64_t high);
PHAROS_API Domain normal(double mean, double deviation);
PHAROS_API Domain choice(std::vector<Value> values);
/// Each of them with each of the other grids': a sweep goes through them all, as often as it has samples.
PHAROS_API Domain grid(std::vector<Value> values);
PHAROS_API std::string to_string(const Domain& domain);

/// Parameters, of which some are there only where another one is such and such.
class PHAROS_API Space {
 public:
  struct Condition {
    std::size_t parent;  ///< which parameter
    Value value;
    bool operator==(const Condition&) const = default;
  };
  struct Parameter {
    std::string name;
    Domain domain;
    std::optional<Condition> condition{};
    bool operator==(const Parameter&) const = default;
  };

  Space() = default;
  Space(std::initializer_list<std::pair<std::string, Domain>> parameters);

  /// Throws InvalidArgument where the name is taken.
  Space& add(std::string name, Domain domain);
  /// The parameters of another, with that name and a dot before theirs.
  Space& nest(std::string_view name, const Space& inner);
  /// The parameters of another, where this one's `parent` is `value`.
  Space& when(std::string_view parent, const Value& value, const Space& inner);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool empty() const { return parameters_.empty(); }
  const Parameter* find(std::string_view name) const;
  bool operator==(const Space&) const = default;

  /// Whether that parameter is there, given those before it.
  bool is_active(std::size_t parameter, const Params& params) const;
  /// Why these are none of its values: one is missing, or none of its parameters, or not one that it may be.
  Result<void> check(const Params& params) const;

  /// A line for each parameter.
  std::string to_string() const;
  std::string to_json() const;
  static Result<Space> from_json(std::string_view json);

 private:
  void append(std::string name, Domain domain, std::optional<Condition> condition);

  std::vector<Parameter> parameters_;
};

/// Goes through the fields of a struct: for its space, or to fill it.
class PHAROS_API Fields {
 public:
  explicit Fields(Space& space) : space_{&space} {}
  explicit Fields(const Params& params) : params_{&params} {}

  template <class T>
  void operator()(std::string_view name, T& field, const Domain& domain) {
    if (space_ != nullptr) space_->add(std::string{name}, domain);
    if (params_ != nullptr) field = params_->get<T>(name);
  }
  /// There only where a field that came before is `value`.
  template <class T>
  void when(std::string_view parent, const Value& value, std::string_view name, std::optional<T>& field,
            const Domain& domain) {
    if (space_ != nullptr) space_->when(parent, value, Space{{std::string{name}, domain}});
    if (params_ == nullptr) return;
    field.reset();
    if (params_->find(name) != nullptr) field = params_->get<T>(name);
  }
  /// A struct within it.
  template <class T>
  void operator()(std::string_view name, T& inner) {
    if (space_ != nullptr) {
      Space its;
      Fields fields{its};
      inner.fields(fields);
      space_->nest(name, its);
      return;
    }
    const Params its = of(name);
    Fields fields{its};
    inner.fields(fields);
  }

 private:
  Params of(std::string_view name) const;

  Space* space_ = nullptr;
  const Params* params_ = nullptr;
};

template <class T>
Space space_of() {
  Space space;
  Fields fields{space};
  T{}.fields(fields);
  return space;
}

/// Throws as Params::get does.
template <class T>
T read(const Params& params) {
  T read{};
  Fields fields{params};
  read.fields(fields);
  return read;
}

template <class T>
T Params::get(std::string_view name) const {
  if constexpr (std::is_same_v<T, bool>) {
    return get_bool(name);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(get_integer(name, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(get_double(name));
  } else {
    return T{get_string(name)};
  }
}

}  // namespace pharos::ml
