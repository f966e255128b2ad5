#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/space.hpp>

#include "run/json.hpp"

namespace pharos::ml {
namespace {

[[noreturn]] void refuse(const std::string& why, const std::string& what_to_do = {}) {
  throw_error(Error{ErrorCode::kInvalidArgument, why, what_to_do});
}

std::string text_of(double number) {
  char text[32];
  // The shortest text that is read back as the same number.
  for (const int digits : {6, 15, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number) break;
  }
  return text;
}

std::string in_quotes(std::string_view name) {
  return '"' + std::string{name} + '"';
}

std::string names_of(const std::vector<Params::Entry>& entries) {
  std::string names;
  for (const auto& [name, value] : entries) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

bool is_whole(double number) {
  return std::floor(number) == number && std::abs(number) < 9.2e18;
}

/// Returns the value as a real. A whole number counts as a real, too.
std::optional<double> number_of(const Value& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* const real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

void check_range(double low, double high, bool log) {
  if (!std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low)) {
    refuse("the range from " + text_of(low) + " to " + text_of(high) + " is not finite");
  }
  if (low > high) refuse("the range from " + text_of(low) + " to " + text_of(high) + " is empty", "Swap the two.");
  if (log && low <= 0) {
    refuse("a logarithmic range cannot begin at " + text_of(low), "Begin above zero, or leave the logarithm out.");
  }
}

constexpr std::string_view kKinds[] = {"real", "integer", "normal", "choice"};

}  // namespace

std::string to_string(const Value& value) {
  struct Text {
    std::string operator()(bool each) const { return each ? "true" : "false"; }
    std::string operator()(std::int64_t each) const { return std::to_string(each); }
    std::string operator()(double each) const { return text_of(each); }
    std::string operator()(const std::string& each) const { return each; }
  };
  return std::visit(Text{}, value);
}

// ---- Params

Params::Params(std::initializer_list<Entry> entries) {
  for (const Entry& each : entries) set(each.first, each.second);
}

const Value* Params::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) { return each.first == name; });
  return found == entries_.end() ? nullptr : &found->second;
}

void Params::set(std::string_view name, Value value) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& each) { return each.first == name; });
  if (found == entries_.end()) {
    entries_.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

namespace {

const Value& value_in(const Params& params, std::string_view name) {
  if (const Value* const value = params.find(name)) return *value;
  throw_error(Error{ErrorCode::kNotFound, "there is no parameter " + in_quotes(name),
                    "There are: " + names_of(params.entries()) + '.'});
}

[[noreturn]] void refuse_type(std::string_view name, const Value& value, std::string_view wanted) {
  refuse("parameter " + in_quotes(name) + " is " + to_string(value) + ", which is not " + std::string{wanted});
}

}  // namespace

bool Params::get_bool(std::string_view name) const {
  const Value& value = value_in(*this, name);
  if (const bool* const found = std::get_if<bool>(&value)) return *found;
  refuse_type(name, value, "true or false");
}

std::int64_t Params::get_integer(std::string_view name, std::int64_t min, std::uint64_t max) const {
  const Value& value = value_in(*this, name);
  const auto* const found = std::get_if<std::int64_t>(&value);
  if (found == nullptr || *found < min || (*found > 0 && static_cast<std::uint64_t>(*found) > max)) {
    refuse_type(name, value, "a whole number of that type");
  }
  return *found;
}

double Params::get_double(std::string_view name) const {
  const Value& value = value_in(*this, name);
  if (const auto number = number_of(value)) return *number;
  refuse_type(name, value, "a number");
}

const std::string& Params::get_string(std::string_view name) const {
  const Value& value = value_in(*this, name);
  if (const auto* const found = std::get_if<std::string>(&value)) return *found;
  refuse_type(name, value, "a text");
}

std::string Params::to_string() const {
  std::string text;
  for (const auto& [name, value] : entries_) text += (text.empty() ? "" : " ") + name + '=' + ml::to_string(value);
  return text;
}

std::string Params::to_json() const {
  Json json = Json::object();
  for (const auto& [name, value] : entries_) json[name] = json_of(value);
  return json.dump();
}

Result<Params> Params::from_json(std::string_view text) {
  PHAROS_TRY(const Json json, parse_json(text, "parameters"));
  if (!json.is_object())
    return Error{ErrorCode::kInvalidArgument, "parameters in JSON must be an object with one entry for each parameter"};
  Params params;
  for (const auto& [name, value] : json.items()) {
    PHAROS_TRY(Value read, value_of_json(value, "parameter " + in_quotes(name)));
    params.set(name, std::move(read));
  }
  return params;
}

// ---- Domain

bool Domain::is_fixed() const {
  switch (kind) {
    case Kind::kNormal: return false;
    case Kind::kChoice: return choices.size() == 1;
    case Kind::kReal:
    case Kind::kInteger: return low == high || (step > 0 && high - low < step);
  }
  return false;
}

bool Domain::holds(const Value& value) const {
  if (kind == Kind::kChoice) return std::find(choices.begin(), choices.end(), value) != choices.end();
  if (kind == Kind::kInteger && !std::holds_alternative<std::int64_t>(value)) return false;
  const auto number = number_of(value);
  if (!number || !std::isfinite(*number)) return false;
  if (kind == Kind::kNormal) return true;
  if (*number < low || *number > high) return false;
  if (step == 0) return true;
  const double steps = (*number - low) / step;
  return std::abs(steps - std::round(steps)) < 1e-6;
}

Domain uniform(double low, double high) {
  check_range(low, high, false);
  return {.low = low, .high = high};
}
Domain log_uniform(double low, double high) {
  check_range(low, high, true);
  return {.low = low, .high = high, .log = true};
}
Domain quantised(double low, double high, double step) {
  check_range(low, high, false);
  if (!(step > 0)) refuse("the step is " + text_of(step) + ", but it must be above zero", "Give a step above zero.");
  // The last multiple of the step replaces the given end, so that no value is outside of the range.
  const double last = low + std::floor((high - low) / step + 1e-9) * step;
  return {.low = low, .high = last, .step = step};
}
Domain integers(std::int64_t low, std::int64_t high, std::int64_t step) {
  constexpr std::int64_t kMax = std::int64_t{1} << 53;  // a double cannot represent each larger number
  if (low < -kMax || high > kMax) refuse("whole numbers go up to 2^53");
  if (step < 1)
    refuse("the step is " + std::to_string(step) + ", but it must be above zero", "Give a step above zero.");
  check_range(static_cast<double>(low), static_cast<double>(high), false);
  const std::int64_t last = low + (high - low) / step * step;
  return {.kind = Domain::Kind::kInteger,
          .low = static_cast<double>(low),
          .high = static_cast<double>(last),
          .step = static_cast<double>(step)};
}
Domain log_integers(std::int64_t low, std::int64_t high) {
  Domain domain = integers(low, high);
  check_range(domain.low, domain.high, true);
  domain.log = true;
  return domain;
}
Domain normal(double mean, double deviation) {
  if (!std::isfinite(mean) || !std::isfinite(deviation) || !(deviation > 0)) {
    refuse("there is no normal distribution of mean " + text_of(mean) + " and standard deviation " +
           text_of(deviation));
  }
  return {.kind = Domain::Kind::kNormal, .low = mean, .high = deviation};
}
Domain choice(std::vector<Value> values) {
  if (values.empty()) refuse("a choice needs at least one value");
  for (const Value& each : values) {
    if (std::count(values.begin(), values.end(), each) > 1) refuse("the choice " + to_string(each) + " is given twice");
    const double* const real = std::get_if<double>(&each);
    if (real != nullptr && std::isnan(*real)) refuse("a choice is NaN");
  }
  return {.kind = Domain::Kind::kChoice, .choices = std::move(values)};
}
Domain grid(std::vector<Value> values) {
  Domain domain = choice(std::move(values));
  domain.grid = true;
  return domain;
}

std::string to_string(const Domain& domain) {
  std::string text;
  if (domain.kind == Domain::Kind::kChoice) {
    for (const Value& each : domain.choices) text += (text.empty() ? "" : ", ") + to_string(each);
    return (domain.grid ? "each of " : "one of ") + text;
  }
  if (domain.kind == Domain::Kind::kNormal)
    return "normal around " + text_of(domain.low) + " +- " + text_of(domain.high);
  text = domain.kind == Domain::Kind::kInteger ? "whole, " : "";
  text += text_of(domain.low) + " to " + text_of(domain.high);
  if (domain.log) return text + ", logarithmic";
  const bool steps = domain.step != 0 && !(domain.kind == Domain::Kind::kInteger && domain.step == 1);
  return steps ? text + " in steps of " + text_of(domain.step) : text;
}

// ---- Space

Space::Space(std::initializer_list<std::pair<std::string, Domain>> parameters) {
  for (const auto& [name, domain] : parameters) add(name, domain);
}

void Space::append(std::string name, Domain domain, std::optional<Condition> condition) {
  if (name.empty()) refuse("a parameter has no name");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name != name || !may_both_be_active(i, condition)) continue;
    refuse("there are two parameters with the name " + in_quotes(name) + ", and both may be active",
           "Give them different names, or let them depend on different values of one parameter.");
  }
  parameters_.push_back({std::move(name), std::move(domain), std::move(condition)});
}

Space& Space::add(std::string name, Domain domain) {
  append(std::move(name), std::move(domain), std::nullopt);
  return *this;
}

Space& Space::nest(std::string_view name, const Space& inner) {
  const std::size_t first = parameters_.size();
  for (const Parameter& each : inner.parameters_) {
    std::optional<Condition> condition = each.condition;
    if (condition) condition->parent += first;
    append(std::string{name} + '.' + each.name, each.domain, std::move(condition));
  }
  return *this;
}

Space& Space::when(std::string_view parent, const Value& value, const Space& inner) {
  const auto number = parent_of(parent);
  if (!number) throw_error(Error{number.error()});
  append(*number, value, inner);
  return *this;
}

Result<std::size_t> Space::parent_of(std::string_view name) const {
  const Parameter* const its = find(name);
  if (its == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "there is no parameter " + in_quotes(name) + " that other parameters can depend on",
                 "Add the parameter before those that depend on it."};
  }
  if (count(name) > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "other parameters are to depend on " + in_quotes(name) + ", but there are several of that name",
                 "Call when() for the space of one branch, before that is added to the whole space."};
  }
  return static_cast<std::size_t>(its - parameters_.data());
}

void Space::append(std::size_t parent, const Value& value, const Space& inner) {
  if (const Parameter& its = parameters_[parent]; !its.domain.holds(value)) {
    refuse("parameter " + in_quotes(its.name) + " cannot have the value " + ml::to_string(value) +
           "; its domain is: " + ml::to_string(its.domain));
  }
  const std::size_t first = parameters_.size();
  for (const Parameter& each : inner.parameters_) {
    std::optional<Condition> condition = each.condition;
    if (condition) {
      condition->parent += first;
    } else {
      condition = Condition{parent, value};
    }
    append(each.name, each.domain, std::move(condition));
  }
}

std::size_t Space::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(parameters_.begin(), parameters_.end(), [&](const Parameter& each) { return each.name == name; }));
}

/// Returns whether these two are one value of the parameter. The domain of a real also holds whole numbers.
bool Space::is_value(std::size_t parameter, const Value& one, const Value& other) const {
  const Domain::Kind kind = parameters_[parameter].domain.kind;
  const bool is_real = kind == Domain::Kind::kReal || kind == Domain::Kind::kNormal;
  return is_real ? number_of(one) == number_of(other) : one == other;
}

/// Returns whether a parameter and another one with this condition may be active in one trial: not if both depend, by
/// whatever way, on different values of one parameter.
bool Space::may_both_be_active(std::size_t parameter, const std::optional<Condition>& other) const {
  for (auto own = parameters_[parameter].condition; own; own = parameters_[own->parent].condition) {
    for (auto its = other; its; its = parameters_[its->parent].condition) {
      if (own->parent == its->parent && !is_value(own->parent, own->value, its->value)) return false;
    }
  }
  return true;
}

const Space::Parameter* Space::find(std::string_view name) const {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& each) { return each.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

bool Space::is_active(std::size_t parameter, const Params& params) const {
  const auto& condition = parameters_[parameter].condition;
  if (!condition) return true;
  if (!is_active(condition->parent, params)) return false;  // the value may be that of another one of its name
  const Value* const value = params.find(parameters_[condition->parent].name);
  return value != nullptr && is_value(condition->parent, *value, condition->value);
}

Result<void> Space::check(const Params& params) const {
  std::size_t active = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_active(i, params)) continue;
    ++active;
    const auto& [name, domain, condition] = parameters_[i];
    const Value* const value = params.find(name);
    if (value == nullptr) return Error{ErrorCode::kInvalidArgument, "parameter " + in_quotes(name) + " is missing"};
    if (domain.holds(*value)) continue;
    return Error{ErrorCode::kInvalidArgument, "parameter " + in_quotes(name) + " cannot have the value " +
                                                  ml::to_string(*value) + "; its domain is: " + ml::to_string(domain)};
  }
  if (active == params.entries().size()) return {};
  for (const auto& [name, value] : params.entries()) {
    bool is_there = false;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      is_there = is_there || (parameters_[i].name == name && is_active(i, params));
    }
    if (is_there) continue;
    return Error{ErrorCode::kInvalidArgument, "the space has no parameter " + in_quotes(name) +
                                                  ", or the parameter is not active with these values"};
  }
  return {};
}

std::string Space::to_string() const {
  std::string text;
  for (const auto& [name, domain, condition] : parameters_) {
    text += name + ": " + ml::to_string(domain);
    if (condition) {
      text += ", if " + parameters_[condition->parent].name + " is " + ml::to_string(condition->value);
    }
    text += '\n';
  }
  return text;
}

std::string Space::to_json() const {
  Json json = Json::array();
  for (const auto& [name, domain, condition] : parameters_) {
    Json each{{"name", name}, {"kind", kKinds[static_cast<std::size_t>(domain.kind)]}};
    if (domain.kind == Domain::Kind::kChoice) {
      for (const Value& value : domain.choices) each["choices"].push_back(json_of(value));
      if (domain.grid) each["grid"] = true;
    } else if (domain.kind == Domain::Kind::kNormal) {
      each["mean"] = domain.low;
      each["deviation"] = domain.high;
    } else {
      each["low"] = domain.low;
      each["high"] = domain.high;
      if (domain.step != 0) each["step"] = domain.step;
      if (domain.log) each["log"] = true;
    }
    if (condition) {
      each["if"] = parameters_[condition->parent].name;
      each["is"] = json_of(condition->value);
      if (count(parameters_[condition->parent].name) > 1) each["if_number"] = condition->parent;
    }
    json.push_back(std::move(each));
  }
  return json.dump();
}

namespace {

Result<double> number_in(const Json& json, const char* key, const std::string& name) {
  if (!json.contains(key) || !json[key].is_number()) {
    return Error{ErrorCode::kInvalidArgument, "parameter " + in_quotes(name) + " has no number \"" + key + '"'};
  }
  return json[key].get<double>();
}

/// Throws what the functions throw that make domains, and what the JSON library throws.
Result<Domain> domain_of(const Json& json, const std::string& name) {
  const std::string kind = json.value("kind", "");
  if (kind == "choice") {
    std::vector<Value> values;
    const Json choices = json.value("choices", Json::array());
    if (!choices.is_array())
      return Error{ErrorCode::kInvalidArgument, "the choices of " + in_quotes(name) + " are not an array"};
    for (const Json& each : choices) {
      PHAROS_TRY(Value value, value_of_json(each, "a choice of " + in_quotes(name)));
      values.push_back(std::move(value));
    }
    return json.value("grid", false) ? grid(std::move(values)) : choice(std::move(values));
  }
  if (kind == "normal") {
    PHAROS_TRY(const double mean, number_in(json, "mean", name));
    PHAROS_TRY(const double deviation, number_in(json, "deviation", name));
    return normal(mean, deviation);
  }
  if (kind != "real" && kind != "integer") {
    return Error{ErrorCode::kInvalidArgument,
                 "parameter " + in_quotes(name) + " is of an unknown kind, " + in_quotes(kind)};
  }
  PHAROS_TRY(const double low, number_in(json, "low", name));
  PHAROS_TRY(const double high, number_in(json, "high", name));
  const double step = json.contains("step") ? json["step"].get<double>() : 0;
  const bool log = json.value("log", false);
  if (kind == "real") return log ? log_uniform(low, high) : step != 0 ? quantised(low, high, step) : uniform(low, high);
  if (!is_whole(low) || !is_whole(high) || !is_whole(step)) {
    return Error{ErrorCode::kInvalidArgument, "parameter " + in_quotes(name) + " is an integer, but its range is not"};
  }
  const auto first = static_cast<std::int64_t>(low);
  const auto last = static_cast<std::int64_t>(high);
  return log ? log_integers(first, last) : integers(first, last, static_cast<std::int64_t>(step));
}

}  // namespace

Result<Space> Space::from_json(std::string_view text) {
  PHAROS_TRY(const Json json, parse_json(text, "a space"));
  if (!json.is_array()) return Error{ErrorCode::kInvalidArgument, "a space in JSON is an array of parameters"};
  Space space;
  try {
    for (const Json& each : json) {
      if (!each.is_object()) return Error{ErrorCode::kInvalidArgument, "a parameter in JSON is an object"};
      const std::string name = each.value("name", "");
      PHAROS_TRY(Domain domain, domain_of(each, name));
      if (!each.contains("if")) {
        space.add(name, std::move(domain));
        continue;
      }
      PHAROS_TRY(const Value value, value_of_json(each.value("is", Json{}), "what " + in_quotes(name) + " depends on"));
      const std::size_t number = each.value("if_number", space.parameters_.size());
      const bool is_numbered =
          number < space.parameters_.size() && space.parameters_[number].name == each["if"].get<std::string>();
      const auto parent = is_numbered ? Result<std::size_t>{number} : space.parent_of(each["if"].get<std::string>());
      if (!parent) return parent.error();
      space.append(*parent, value, Space{{name, std::move(domain)}});
    }
  } catch (const Exception& e) {
    return e.error();
  } catch (const Json::exception& e) {
    return Error{ErrorCode::kInvalidArgument, std::string{"this JSON does not describe a space: "} + e.what()};
  }
  return space;
}

// ---- Fields

bool Fields::has(std::string_view parent, const Value& value) const {
  const Value* const its = params_->find(parent);
  if (its == nullptr) return false;
  const auto number = number_of(*its);
  return *its == value || (number && number == number_of(value));
}

Params Fields::of(std::string_view name) const {
  const std::string prefix = std::string{name} + '.';
  Params its;
  for (const auto& [each, value] : params_->entries()) {
    if (each.starts_with(prefix)) its.set(std::string_view{each}.substr(prefix.size()), value);
  }
  return its;
}

}  // namespace pharos::ml
