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
#include <pharos/ml/value.hpp>

/// The parameters that a sweep may try, by name, with the values that each may have:
///
///   Space space{{"eta", log_uniform(1e-4, 1e-1)}, {"depth", integers(3, 9)}, {"booster", choice({"gbtree", "dart"})}};
///   space.when("booster", "dart", Space{{"rate_drop", uniform(0, 0.5)}});
///
/// Or a struct declares its fields and their domains itself, and is then filled from a trial's parameters:
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

// The types of this header, except Fields, are plain values, which the program owns. Any thread may call the functions.

/// The parameters of one trial: values by name, in the order of the space. Text and JSON keep that order.
class PHAROS_API Params {
 public:
  using Entry = std::pair<std::string, Value>;

  Params() = default;
  Params(std::initializer_list<Entry> entries);

  /// Returns the value of a parameter as a T: bool, a type of integers or of floating point numbers, or std::string. A
  /// whole number can be read as a floating point number. Throws NotFound, with the names that exist, or
  /// InvalidArgument if the value has another type or does not fit into a T.
  template <class T>
  T get(std::string_view name) const;
  /// Returns nullptr if there is no such parameter.
  const Value* find(std::string_view name) const;
  /// Sets a value, and replaces the value that the name had before.
  void set(std::string_view name, Value value);

  const std::vector<Entry>& entries() const& { return entries_; }
  std::vector<Entry> entries() && { return std::move(entries_); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Params&) const = default;

  /// "eta=0.01 depth=6"
  std::string to_string() const;
  /// Text must be UTF-8; otherwise this throws a std::exception. Reals that are not finite become texts.
  std::string to_json() const;
  auto pharos_fields() { return std::tie(entries_); }
  /// Fails with kInvalidArgument if this is no JSON object of numbers, texts and truth values.
  static Result<Params> from_json(std::string_view json);

 private:
  bool get_bool(std::string_view name) const;
  std::int64_t get_integer(std::string_view name, std::int64_t min, std::uint64_t max) const;
  double get_double(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;

  std::vector<Entry> entries_;
};

/// The values that a parameter may have. The functions below make domains, and throw InvalidArgument if their arguments
/// make no sense.
struct Domain {
  enum class Kind : std::uint8_t { kReal, kInteger, kNormal, kChoice };

  Kind kind = Kind::kReal;
  double low = 0;     ///< kNormal: the mean; kReal and kInteger: the smallest value
  double high = 1;    ///< kNormal: the standard deviation; kReal and kInteger: the largest value
  double step = 0;    ///< kReal and kInteger: the values are `low` plus multiples of the step; 0: any value
  bool log = false;   ///< values are sampled evenly on a logarithmic scale
  bool grid = false;  ///< a grid search tries each of the choices
  std::vector<Value> choices{};

  /// Returns true if the domain has only one value.
  bool is_fixed() const;
  /// Returns whether the domain contains the value. A real may be given as a whole number.
  bool holds(const Value& value) const;
  bool operator==(const Domain&) const = default;
};

PHAROS_API Domain uniform(double low, double high);
PHAROS_API Domain log_uniform(double low, double high);
/// The values low, low + step, low + 2 * step, and so on, up to high.
PHAROS_API Domain quantised(double low, double high, double step);
PHAROS_API Domain integers(std::int64_t low, std::int64_t high, std::int64_t step = 1);
PHAROS_API Domain log_integers(std::int64_t low, std::int64_t high);
PHAROS_API Domain normal(double mean, double deviation);
PHAROS_API Domain choice(std::vector<Value> values);
/// Values that grid_search() tries in all combinations with the values of other grids. Other searchers choose among
/// them.
PHAROS_API Domain grid(std::vector<Value> values);
PHAROS_API std::string to_string(const Domain& domain);

/// An ordered list of parameters. A parameter may have a condition: then it is active, and has a value in a trial, only
/// if an earlier parameter has a certain value. Parameters of which no two can be active at once may have one name:
///
///   Space space{{"optimizer", choice({"sgd", "adam"})}};
///   space.when("optimizer", "sgd", Space{{"lr", log_uniform(1e-3, 1)}});
///   space.when("optimizer", "adam", Space{{"lr", log_uniform(1e-5, 1e-2)}});
class PHAROS_API Space {
 public:
  struct Condition {
    std::size_t parent;  ///< index of the earlier parameter
    Value value;         ///< the value that makes this parameter active
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

  /// Throws InvalidArgument if the name is empty, or that of a parameter that may be active at the same time, as nest()
  /// and when() do; these two may then have added some of the parameters. `inner` must be another space than this one.
  Space& add(std::string name, Domain domain);
  /// Adds the parameters of another space; their names get `name` and a dot in front.
  Space& nest(std::string_view name, const Space& inner);
  /// Adds the parameters of another space, which are active only if `parent` has the value `value`. Throws
  /// InvalidArgument if there is no parameter `parent`, if there are several (let the parameters depend on it in the
  /// space of its branch), or if it cannot have that value.
  Space& when(std::string_view parent, const Value& value, const Space& inner);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool empty() const { return parameters_.empty(); }
  /// Returns the first parameter of that name; nullptr if there is none. The pointer is valid until a parameter is
  /// added.
  const Parameter* find(std::string_view name) const;
  bool operator==(const Space&) const = default;

  /// Returns whether the parameter of that index is active, given the values of the parameters before it. The value of
  /// a real, and a condition on a real, may be given as whole numbers.
  bool is_active(std::size_t parameter, const Params& params) const;
  /// Fails with kInvalidArgument if `params` is no point of this space: if an active parameter is missing, if a name is
  /// unknown or inactive, or if a value is outside of its domain.
  Result<void> check(const Params& params) const;

  /// A line for each parameter.
  std::string to_string() const;
  /// Text must be UTF-8; otherwise this throws a std::exception.
  std::string to_json() const;
  /// Fails with kInvalidArgument if this is no JSON of a space.
  static Result<Space> from_json(std::string_view json);

 private:
  void append(std::string name, Domain domain, std::optional<Condition> condition);
  void append(std::size_t parent, const Value& value, const Space& inner);
  Result<std::size_t> parent_of(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  bool is_value(std::size_t parameter, const Value& one, const Value& other) const;
  bool may_both_be_active(std::size_t parameter, const std::optional<Condition>& other) const;

  std::vector<Parameter> parameters_;
};

/// Visits the fields of a struct, either to add them to a space or to fill them from the parameters of a trial. Lives
/// during one call of the struct's fields(), and refers to the space or the parameters. Throws what Space::add() and
/// Space::when(), or Params::get() throw.
class PHAROS_API Fields {
 public:
  explicit Fields(Space& space) : space_{&space} {}
  explicit Fields(const Params& params) : params_{&params} {}

  template <class T>
  void operator()(std::string_view name, T& field, const Domain& domain) {
    if (space_ != nullptr) space_->add(std::string{name}, domain);
    if (params_ != nullptr) field = params_->get<T>(name);
  }
  /// A field that is active only if the earlier field `parent` has the value `value`; otherwise it becomes empty.
  template <class T>
  void when(std::string_view parent, const Value& value, std::string_view name, std::optional<T>& field,
            const Domain& domain) {
    if (space_ != nullptr) space_->when(parent, value, Space{{std::string{name}, domain}});
    if (params_ == nullptr) return;
    field.reset();
    if (has(parent, value) && params_->find(name) != nullptr) field = params_->get<T>(name);
  }
  /// A struct within the struct. The names of its fields get `name` and a dot in front.
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
  bool has(std::string_view parent, const Value& value) const;

  Space* space_ = nullptr;
  const Params* params_ = nullptr;
};

/// Returns the space that T's fields() declares. Throws what Space::add() throws.
template <class T>
Space space_of() {
  Space space;
  Fields fields{space};
  T{}.fields(fields);
  return space;
}

/// Returns a T whose fields are filled from `params`. Throws as Params::get().
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
