#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <pharos/scheduler/resources.hpp>
#include <pharos/scheduler/waiting_line.hpp>

#include "resources_of.hpp"
#include "seed.hpp"

namespace pharos::scheduler {
namespace {

TEST(ResourcesTest, WhatIsParsedIsPrinted) {
  EXPECT_EQ(of("gpu=1,cpu=0.5,fast_disk=2").to_string(), "0.5 CPUs, 2 fast_disk, 1 GPU");
  EXPECT_EQ(of("cpu=0.0001").to_string(), "0.0001 CPUs");
  EXPECT_EQ(of("cpu=0.1,gpu=0").to_string(), "0.1 CPUs");
  EXPECT_EQ(of("").to_string(), "nothing");
}

TEST(ResourcesTest, WhatMakesNoSenseIsRefusedAndNamed) {
  for (const std::string text : {"gpu", "gpu=", "gpu=x", "=1", "gpu=1,gpu=1", "gpu=1,,cpu=1", "g pu=1", "gpu=-1",
                                 "gpu=nan", "gpu=inf", "gpu=1e7", "cpu=0.00001", "gpu=1.5", "gpu=1=2"}) {
    const auto parsed = Resources::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_NE(parsed.error().message().find("is invalid"), std::string::npos) << text;
  }
  Resources resources;
  EXPECT_FALSE(resources.set(std::string(65, 'n'), 1).ok());
  EXPECT_FALSE(resources.set(std::string("a\0b", 3), 1).ok());
  EXPECT_FALSE(resources.set("cpu", -0.5).ok());
  EXPECT_FALSE(resources.set("cpu", std::nan("")).ok());
  EXPECT_FALSE(resources.set("cpu", std::numeric_limits<double>::infinity()).ok());
  EXPECT_TRUE(resources.empty());
}

TEST(ResourcesTest, MemoryIsCountedInBytesAndNamedInUnits) {
  EXPECT_EQ(of("memory=8GiB").memory(), std::int64_t{8} << 30);
  EXPECT_EQ(of("memory=1.5G"), of("memory=1536MB"));
  EXPECT_EQ(of("memory=1"), of("memory=1B"));
  EXPECT_EQ(of("memory=1T"), of("memory=1024GiB"));
  EXPECT_EQ(of("cpu=1,memory=1536MiB").to_string(), "1 CPU, 1.5 GiB memory");
  EXPECT_EQ(of("cpu=1,memory=2G").shortage(of("cpu=1,memory=1G"), "the node"),
            "2 GiB memory; the node has 1 GiB memory");
  EXPECT_EQ(of("memory=2G").use(of("memory=4G"), of("memory=1G")), "3 GiB of 4 GiB memory are in use");
  const auto travelled = Resources::checked(of("cpu=0.5,memory=3GiB").amounts());
  ASSERT_TRUE(travelled.ok());
  EXPECT_EQ(*travelled, of("cpu=0.5,memory=3GiB"));
  Resources resources;
  EXPECT_TRUE(resources.set_memory(Resources::kMostMemory).ok());
  EXPECT_EQ(resources.to_string(), "1 PiB memory");
  EXPECT_FALSE(resources.set_memory(ByteCount{~std::uint64_t{0}}).ok());
  EXPECT_FALSE(Resources::checked({{"memory", -1}}).ok());
  for (const std::string text : {"memory=1P", "memory=1 G", "memory=1GiBs", "memory=1iB", "memory=G", "memory=1025T",
                                 "memory=-1G", "memory=nan", "memory=1g", "cpu=1G", "memory=1G,memory=1G"}) {
    EXPECT_FALSE(Resources::parse(text).ok()) << text;
  }
}

TEST(ResourcesTest, OfTooManyNamesTheNextIsRefused) {
  Resources resources;
  for (std::size_t i = 0; i < Resources::kNamesMax; ++i) ASSERT_TRUE(resources.set("r" + std::to_string(i), 1).ok());
  EXPECT_FALSE(resources.set("one_more", 1).ok());
  EXPECT_TRUE(resources.set("r0", 2).ok()) << "one that is there already";
}

TEST(ResourcesTest, TenTenthsAreAWhole) {
  Resources sum;
  for (int i = 0; i < 10; ++i) sum += of("cpu=0.1");
  EXPECT_EQ(sum, of("cpu=1"));
  for (int i = 0; i < 10; ++i) sum -= of("cpu=0.1");
  EXPECT_TRUE(sum.empty());
}

TEST(ResourcesTest, AShortageNamesOnlyWhatIsShort) {
  EXPECT_EQ(of("cpu=1,gpu=2").shortage(of("cpu=8,gpu=1"), "the node"), "2 GPUs; the node has 1 GPU");
  EXPECT_EQ(of("disk=2,gpu=0.5").shortage(of("cpu=8"), "the node"),
            "2 disk and 0.5 GPUs; the node has 0 disk and 0 GPUs");
}

TEST(ResourcesTest, WhatIsInUseNamesOnlyWhatThereIsTooLittleOfOrAllWhereThereIsEnoughOfEach) {
  const Resources total = of("cpu=4,gpu=1,disk=2");
  EXPECT_EQ(of("cpu=1,gpu=1").use(total, of("cpu=3")), "1 of 1 GPUs are in use");
  EXPECT_EQ(of("cpu=1,disk=2").use(total, of("cpu=0.5,disk=1")), "3.5 of 4 CPUs and 1 of 2 disk are in use");
  EXPECT_EQ(of("cpu=1").use(total, total), "0 of 4 CPUs are in use");
}

TEST(LedgerTest, TwoHalvesOfDifferentGpusMakeNoWhole) {
  ResourceLedger ledger{of("gpu=2")};
  const auto on_both = Allotment{of("gpu=1"), {{0, 5000}, {1, 5000}}};
  ledger.take(on_both);
  EXPECT_FALSE(ledger.fits(of("gpu=1")));
  EXPECT_TRUE(ledger.fits(of("gpu=0.5")));
  ledger.give_back(on_both);
  EXPECT_EQ(ledger.take(of("gpu=2")).gpus, (std::vector<GpuShare>{{0, 10'000}, {1, 10'000}}));
}

TEST(LedgerTest, SharesFillOneGpuBeforeTheyBreakAnother) {
  ResourceLedger ledger{of("gpu=2")};
  EXPECT_EQ(ledger.take(of("gpu=0.5")).gpus.front().index, 0u);
  EXPECT_EQ(ledger.take(of("gpu=1")).gpus.front().index, 1u);
  EXPECT_EQ(ledger.take(of("gpu=0.3")).gpus.front().index, 0u);
  EXPECT_FALSE(ledger.fits(of("gpu=0.3")));
  EXPECT_TRUE(ledger.fits(of("gpu=0.2")));
}

TEST(LedgerTest, SeveralDemandsGetAllotmentsOnlyTogether) {
  const ResourceLedger ledger{of("cpu=2,gpu=2")};
  const auto allotments_for = [&](const std::vector<Resources>& demands) {
    std::vector<const Resources*> asked;
    for (const Resources& each : demands) asked.push_back(&each);
    return ledger.find_allotments(asked);
  };
  const auto found = allotments_for({of("gpu=0.5"), of("cpu=2"), of("gpu=1")});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], (Allotment{of("gpu=0.5"), {{1, 5000}}})) << "whole GPUs come first";
  EXPECT_EQ(found[1], (Allotment{of("cpu=2"), {}}));
  EXPECT_EQ(found[2], (Allotment{of("gpu=1"), {{0, 10'000}}}));
  EXPECT_TRUE(allotments_for({of("cpu=1"), of("cpu=1.5")}).empty());
  EXPECT_TRUE(allotments_for({of("gpu=1"), of("gpu=0.6"), of("gpu=0.5")}).empty());
  EXPECT_TRUE(allotments_for({of("gpu=0.6"), of("gpu=0.6"), of("gpu=0.6")}).empty()) << "only two GPUs have so much";
}

using LedgerRandom = SeededTest;

TEST_F(LedgerRandom, GpusThatWereCutIntoSharesAreFoundForTheseShares) {
  for (int round = 0; round < 200; ++round) {
    std::vector<Resources> shares;
    for (int gpu = 0; gpu < 2; ++gpu) {
      std::int64_t left = Resources::kWhole;
      for (std::size_t more = between(1, 3); more > 0; --more) {
        const auto share = static_cast<std::int64_t>(between(1, static_cast<std::uint64_t>(left) / 2));
        shares.emplace_back(Resources::Amounts{{"gpu", share}});
        left -= share;
      }
      shares.emplace_back(Resources::Amounts{{"gpu", left}});
    }
    std::shuffle(shares.begin(), shares.end(), random_);
    std::vector<const Resources*> asked;
    for (const Resources& each : shares) asked.push_back(&each);
    ResourceLedger ledger{of("gpu=2")};
    const auto found = ledger.find_allotments(asked);
    ASSERT_EQ(found.size(), shares.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].amounts, shares[i]);
      ASSERT_EQ(found[i].gpus.size(), 1u);
      ASSERT_TRUE(ledger.fits(found[i]));
      ledger.take(found[i]);
    }
    ASSERT_TRUE(ledger.left().empty());
  }
}

TEST_F(LedgerRandom, NoGpuIsEverGivenTwice) {
  for (int round = 0; round < 200; ++round) {
    const auto count = static_cast<std::uint32_t>(between(0, 4));
    ResourceLedger ledger{of("cpu=4,gpu=" + std::to_string(count))};
    std::vector<Allotment> held;
    for (int step = 0; step < 100; ++step) {
      if (!held.empty() && chance(3)) {
        const std::size_t which = between(0, held.size() - 1);
        ledger.give_back(held[which]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const std::vector<std::string> shapes{"gpu=0.1", "gpu=0.5,cpu=1", "gpu=0.75",
                                              "gpu=1",   "gpu=2,cpu=0.5", "cpu=1"};
        const Resources demand = of(shapes[between(0, shapes.size() - 1)]);
        if (!ledger.fits(demand)) continue;
        held.push_back(ledger.take(demand));
        std::int64_t gpus = 0;
        for (const GpuShare& share : held.back().gpus) gpus += share.amount;
        ASSERT_EQ(gpus, demand.gpus()) << "the devices add up to what was asked for";
      }
      std::vector<std::int64_t> taken(count);
      std::int64_t cpus = 0;
      for (const Allotment& each : held) {
        cpus += each.amounts.cpus();
        for (const GpuShare& share : each.gpus) taken.at(share.index) += share.amount;
      }
      for (const std::int64_t amount : taken) ASSERT_LE(amount, Resources::kWhole);
      ASSERT_EQ(cpus, 4 * Resources::kWhole - ledger.left().cpus());
    }
    for (const Allotment& each : held) ledger.give_back(each);
    ASSERT_EQ(ledger.left(), ledger.total());
  }
}

TEST(WaitingLineTest, EachHasItsTurnInOrderAndBehindOneThatStaysNobodyOfItsKind) {
  WaitingLine<int> line;
  line.push(of("cpu=1"), 1);
  line.push(of("gpu=1"), 2);
  line.push(of("cpu=1"), 3);
  line.push(of("gpu=1"), 4);
  std::vector<int> turns;
  line.serve([&](const Resources& demand, int who) {
    turns.push_back(who);
    return demand.gpus() == 0;
  });
  EXPECT_EQ(turns, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(line.size(), 2u);
  line.erase_if([](const Resources&, int who) { return who == 2; });
  turns.clear();
  line.serve([&](const Resources&, int who) {
    turns.push_back(who);
    return true;
  });
  EXPECT_EQ(turns, (std::vector<int>{4}));
  EXPECT_TRUE(line.empty());
}

}  // namespace
}  // namespace pharos::scheduler
