#include <gtest/gtest.h>

#include <limits>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/space.hpp>

#include "says.hpp"

namespace pharos::ml {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Space boosters() {
  Space space{
      {"eta", log_uniform(1e-4, 1e-1)},        {"depth", integers(3, 9)}, {"subsample", quantised(0.5, 1, 0.125)},
      {"booster", choice({"gbtree", "dart"})}, {"seed", grid({1, 2, 3})}, {"noise", normal(0, 2.5)},
      {"leaves", log_integers(1, 1024)}};
  space.when("booster", "dart", Space{{"rate_drop", uniform(0, 0.5)}, {"one_drop", choice({true, false})}});
  return space;
}

TEST(SpaceTest, IsPrintedAsPeopleReadIt) {
  EXPECT_EQ(boosters().to_string(),
            "eta: 0.0001 to 0.1, logarithmic\n"
            "depth: whole, 3 to 9\n"
            "subsample: 0.5 to 1 in steps of 0.125\n"
            "booster: one of gbtree, dart\n"
            "seed: each of 1, 2, 3\n"
            "noise: normal around 0 +- 2.5\n"
            "leaves: whole, 1 to 1024, logarithmic\n"
            "rate_drop: 0 to 0.5, if booster is dart\n"
            "one_drop: one of true, false, if booster is dart\n");
}

TEST(SpaceTest, GoesThroughJsonAsItIs) {
  const Space space = boosters();
  const auto again = Space::from_json(space.to_json());
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, space);
  const Params params{{"eta", 0.1}, {"whole", 3}, {"real", 3.0}, {"name", "a \"b\"\n"}, {"yes", true}};
  const auto read = Params::from_json(params.to_json());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, params);
  EXPECT_EQ(params.to_string(), "eta=0.1 whole=3 real=3 name=a \"b\"\n yes=true");
}

TEST(SpaceTest, JsonThatMakesNoSenseIsRefusedWithTheReason) {
  const auto refused = [](const std::string& json, const char* why) {
    const auto space = Space::from_json(json);
    ASSERT_FALSE(space) << json;
    EXPECT_EQ(space.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_SAYS(space.error().message(), why);
  };
  refused("", "not valid JSON for a space");
  refused("[{", "not valid JSON for a space");
  refused("{}", "is an array");
  refused("[1]", "is an object");
  refused("[{}]", "unknown kind");
  refused(R"([{"name": "x", "kind": "real", "low": 1}])", "has no number \"high\"");
  refused(R"([{"name": "x", "kind": "real", "low": 1, "high": "2"}])", "has no number \"high\"");
  refused(R"([{"name": "x", "kind": "real", "low": 2, "high": 1}])", "is empty");
  refused(R"([{"name": "x", "kind": "integer", "low": 1.5, "high": 3, "step": 1}])", "is an integer");
  refused(R"([{"name": "x", "kind": "integer", "low": -1e300, "high": 1e300, "step": 1}])", "is an integer");
  refused(R"([{"name": "x", "kind": "choice", "choices": [[1]]}])", "a number, a text, true or false");
  refused(R"([{"name": "x", "kind": "choice", "choices": 3}])", "are not an array");
  refused(R"([{"name": 3, "kind": "choice", "choices": [1]}])", "does not describe a space");
  refused(R"([{"name": "x", "kind": "real", "low": 1, "high": 2, "if": "y", "is": 1}])", "no parameter \"y\"");
  refused(std::string(100'000, '['), "not valid JSON for a space");
  EXPECT_FALSE(Params::from_json("[]"));
  EXPECT_FALSE(Params::from_json(R"({"a": {}})"));
}

TEST(SpaceTest, WhatMakesNoSenseIsRefused) {
  const auto refused = [](const auto& make, const char* why) { EXPECT_SAYS(message_of<InvalidArgument>(make), why); };
  refused([] { uniform(1, 0); }, "the range from 1 to 0 is empty");
  refused([] { uniform(kNone, 1); }, "not finite");
  refused([] { uniform(0, kInfinite); }, "not finite");
  refused([] { uniform(-1e308, 1e308); }, "not finite");
  refused([] { log_uniform(0, 1); }, "cannot begin at 0");
  refused([] { quantised(0, 1, 0); }, "must be above zero");
  refused([] { quantised(0, 1, kNone); }, "must be above zero");
  refused([] { integers(0, 5, 0); }, "must be above zero");
  refused([] { integers(0, std::numeric_limits<std::int64_t>::max()); }, "2^53");
  refused([] { normal(0, 0); }, "no normal distribution");
  refused([] { choice({}); }, "at least one value");
  refused([] { choice({1, 2, 1}); }, "given twice");
  refused([] { Space({{"x", uniform(0, 1)}, {"x", uniform(0, 1)}}); }, "two parameters with the name \"x\"");
  refused([] { Space({{"", uniform(0, 1)}}); }, "no name");
  Space space{{"x", choice({1, 2})}};
  refused([&] { space.when("y", 1, Space{}); }, "no parameter \"y\"");
  refused([&] { space.when("x", 3, Space{}); }, "cannot have the value 3");
  refused([&] { space.when("x", 1, Space{{"x", uniform(0, 1)}}); }, "two parameters");
}

TEST(SpaceTest, StepsEndWithTheLastThatFits) {
  EXPECT_EQ(quantised(0, 1, 0.3).high, 0.3 * 3);
  EXPECT_EQ(integers(1, 10, 4).high, 9);
  EXPECT_TRUE(quantised(0, 1, 0.1).holds(0.3));
  EXPECT_TRUE(quantised(0, 1, 0.1).holds(1.0));
  EXPECT_FALSE(quantised(0, 1, 0.1).holds(0.35));
  EXPECT_TRUE(uniform(0, 1).holds(1));
  EXPECT_FALSE(integers(0, 9).holds(1.0));
  EXPECT_FALSE(uniform(0, 1).holds("1"));
  EXPECT_TRUE(integers(3, 3).is_fixed());
  EXPECT_FALSE(normal(0, 1).is_fixed());
}

TEST(SpaceTest, WhatDependsIsThereOnlyThen) {
  Space tree{{"kind", choice({"a", "b"})}};
  tree.when("kind", "a", Space{{"deep", choice({1, 2})}}).when("deep", 2, Space{{"deepest", uniform(0, 1)}});
  EXPECT_TRUE(tree.check({{"kind", "b"}}));
  EXPECT_TRUE(tree.check({{"kind", "a"}, {"deep", 1}}));
  EXPECT_TRUE(tree.check({{"kind", "a"}, {"deep", 2}, {"deepest", 0.5}}));
  const auto refused = [&](const Params& params, const char* why) {
    const auto checked = tree.check(params);
    ASSERT_FALSE(checked);
    EXPECT_SAYS(checked.error().message(), why);
  };
  refused({{"kind", "a"}}, "\"deep\" is missing");
  refused({{"kind", "b"}, {"deep", 1}}, "the space has no parameter \"deep\", or");
  refused({{"kind", "c"}}, "cannot have the value c; its domain is: one of a, b");
  refused({{"kind", "b"}, {"other", 1}}, "no parameter \"other\"");
  Space outer;
  outer.nest("model", tree);
  EXPECT_TRUE(outer.check({{"model.kind", "a"}, {"model.deep", 1}}));
}

TEST(SpaceTest, ARealMayBeAWholeNumberInAConditionToo) {
  for (const Value& one : {Value{1}, Value{1.0}}) {
    Space space{{"rate", quantised(0, 1, 0.5)}};
    space.when("rate", one, Space{{"deep", uniform(0, 1)}});
    for (const Value& rate : {Value{1}, Value{1.0}}) EXPECT_TRUE(space.check({{"rate", rate}, {"deep", 0.5}}));
    EXPECT_TRUE(space.check({{"rate", 0.5}}));
    EXPECT_FALSE(space.check({{"rate", 0.5}, {"deep", 0.5}}));
  }
}

/// The rate of each optimizer, and a momentum that depends on one of these rates.
Space optimizers() {
  Space slow{{"rate", choice({1, 2})}};
  slow.when("rate", 2, Space{{"momentum", uniform(0, 1)}});
  Space space{{"optimizer", choice({"sgd", "adam", "none"})}};
  space.when("optimizer", "sgd", Space{{"rate", log_uniform(0.5, 8)}, {"momentum", uniform(2, 3)}});
  return space.when("optimizer", "adam", slow);
}

TEST(SpaceTest, ParametersThatAreNeverActiveAtOnceMayHaveOneName) {
  const Space space = optimizers();
  EXPECT_TRUE(space.check({{"optimizer", "none"}}));
  EXPECT_TRUE(space.check({{"optimizer", "sgd"}, {"rate", 2.0}, {"momentum", 2.5}}));
  EXPECT_TRUE(space.check({{"optimizer", "adam"}, {"rate", 1}}));
  EXPECT_TRUE(space.check({{"optimizer", "adam"}, {"rate", 2}, {"momentum", 0.5}}));
  EXPECT_FALSE(space.check({{"optimizer", "sgd"}, {"rate", 2}, {"momentum", 0.5}})) << "the other one's momentum";
  EXPECT_FALSE(space.check({{"optimizer", "adam"}, {"rate", 1}, {"momentum", 0.5}})) << "not with this rate";
  EXPECT_FALSE(space.check({{"optimizer", "none"}, {"rate", 2}}));
  EXPECT_EQ(space.find("rate")->domain, log_uniform(0.5, 8)) << "the first one";
  const auto again = Space::from_json(space.to_json());
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, space);
}

TEST(SpaceTest, ParametersThatMayBeActiveAtOnceNeedDifferentNames) {
  const auto refused = [](const auto& call, const char* why) {
    try {
      call();
      FAIL() << "nothing was refused";
    } catch (const InvalidArgument& error) {
      EXPECT_SAYS(error.what(), why);
    }
  };
  Space space = optimizers();
  refused([&] { space.add("rate", uniform(0, 1)); }, "\"rate\", and both may be active");
  refused([&] { space.when("optimizer", "sgd", Space{{"rate", uniform(0, 1)}}); }, "and both may be active");
  refused([&] { space.when("rate", 2, Space{{"new", uniform(0, 1)}}); }, "there are several of that name");
  space.when("optimizer", "none", Space{{"rate", uniform(0, 1)}});
  Space two{{"a", choice({1, 2})}, {"b", choice({1, 2})}};
  two.when("a", 1, Space{{"c", uniform(0, 1)}});
  refused([&] { two.when("b", 2, Space{{"c", uniform(0, 1)}}); }, "and both may be active");
  Space reals{{"rate", quantised(0, 1, 0.5)}};
  reals.when("rate", 1, Space{{"deep", uniform(0, 1)}});
  refused([&] { reals.when("rate", 1.0, Space{{"deep", uniform(0, 1)}}); }, "and both may be active");
}

struct Branches {
  std::string kind;
  std::optional<double> sgds_rate{};
  std::optional<int> adams_rate{};
  void fields(Fields& f) {
    f("kind", kind, choice({"sgd", "adam"}));
    f.when("kind", "sgd", "rate", sgds_rate, uniform(0, 1));
    f.when("kind", "adam", "rate", adams_rate, integers(1, 9));
  }
};

TEST(SpaceTest, AStructMayHaveAFieldForEachBranch) {
  EXPECT_EQ(space_of<Branches>().parameters().size(), 3U);
  const auto sgd = read<Branches>({{"kind", "sgd"}, {"rate", 0.5}});
  EXPECT_EQ(sgd.sgds_rate, 0.5);
  EXPECT_EQ(sgd.adams_rate, std::nullopt);
  const auto adam = read<Branches>({{"kind", "adam"}, {"rate", 7}});
  EXPECT_EQ(adam.sgds_rate, std::nullopt);
  EXPECT_EQ(adam.adams_rate, 7);
}

struct Layer {
  int width = 0;
  void fields(Fields& f) { f("width", width, log_integers(16, 256)); }
};
struct Network {
  double rate = 0;
  float momentum = 0;
  std::string kind;
  std::optional<bool> nesterov{};
  Layer layer{};
  void fields(Fields& f) {
    f("rate", rate, log_uniform(1e-5, 1));
    f("momentum", momentum, uniform(0, 1));
    f("kind", kind, choice({"sgd", "adam"}));
    f.when("kind", "sgd", "nesterov", nesterov, choice({true, false}));
    f("layer", layer);
  }
};

TEST(SpaceTest, AStructSaysItsSpaceAndIsReadFromIt) {
  EXPECT_EQ(space_of<Network>().to_string(),
            "rate: 1e-05 to 1, logarithmic\n"
            "momentum: 0 to 1\n"
            "kind: one of sgd, adam\n"
            "nesterov: one of true, false, if kind is sgd\n"
            "layer.width: whole, 16 to 256, logarithmic\n");
  const auto sgd =
      read<Network>({{"rate", 0.5}, {"momentum", 1}, {"kind", "sgd"}, {"nesterov", true}, {"layer.width", 32}});
  EXPECT_EQ(sgd.rate, 0.5);
  EXPECT_EQ(sgd.momentum, 1);
  EXPECT_EQ(sgd.kind, "sgd");
  EXPECT_EQ(sgd.nesterov, true);
  EXPECT_EQ(sgd.layer.width, 32);
  EXPECT_FALSE(read<Network>({{"rate", 1}, {"momentum", 1}, {"kind", "adam"}, {"layer.width", 32}}).nesterov);
  EXPECT_SAYS(message_of<NotFound>([] { read<Network>({{"rate", 1}}); }), "There are: rate.");
}

TEST(SpaceTest, AParameterIsReadAsWhatItIs) {
  const Params params{{"large", 300}, {"real", 1.5}, {"name", "x"}};
  EXPECT_EQ(params.get<double>("large"), 300);
  EXPECT_EQ(params.get<std::uint16_t>("large"), 300);
  message_of<InvalidArgument>([&] { static_cast<void>(params.get<std::uint8_t>("large")); });
  message_of<InvalidArgument>([&] { static_cast<void>(params.get<int>("real")); });
  message_of<InvalidArgument>([&] { static_cast<void>(params.get<double>("name")); });
  message_of<InvalidArgument>([&] { static_cast<void>(params.get<bool>("large")); });
  EXPECT_SAYS(message_of<NotFound>([&] { static_cast<void>(params.get<int>("small")); }), "no parameter \"small\"");
}

}  // namespace
}  // namespace pharos::ml
