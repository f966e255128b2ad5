#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <new>
#include <string>

#include <pharos/async/unique_function.hpp>

namespace pharos::async {
namespace {

// Counts heap allocations of the classes that derive from it.
struct CountsAllocations {
  static inline int allocations = 0;
  static void* operator new(std::size_t size) {
    ++allocations;
    return ::operator new(size);
  }
  static void* operator new(std::size_t, void* place) { return place; }
  static void operator delete(void* memory) { ::operator delete(memory); }
  static void operator delete(void*, void*) {}
};

template <std::size_t kBytes>
struct Sized : CountsAllocations {
  std::array<char, kBytes> bytes{};
  std::size_t operator()() { return bytes.size(); }
};

struct MayThrowOnMove : CountsAllocations {
  MayThrowOnMove() = default;
  MayThrowOnMove(MayThrowOnMove&&) noexcept(false) {}
  int operator()() { return 7; }
};

TEST(UniqueFunction, OwnsWhatCannotBeCopied) {
  UniqueFunction<int(int)> add = [three = std::make_unique<int>(3)](int n) { return *three + n; };
  EXPECT_EQ(add(4), 7);
}

TEST(UniqueFunction, FortyEightBytesAreKeptWithoutAnAllocation) {
  CountsAllocations::allocations = 0;
  UniqueFunction<std::size_t()> function = Sized<48>{};
  auto moved = std::move(function);
  EXPECT_EQ(moved(), 48u);
  EXPECT_EQ(CountsAllocations::allocations, 0);
}

TEST(UniqueFunction, MoreThanThatIsAllocatedOnceHoweverOftenItIsMoved) {
  CountsAllocations::allocations = 0;
  UniqueFunction<std::size_t()> function = Sized<49>{};
  auto moved = std::move(function);
  function = std::move(moved);
  EXPECT_EQ(function(), 49u);
  EXPECT_EQ(CountsAllocations::allocations, 1);
}

TEST(UniqueFunction, WhatMayThrowWhenMovedIsAllocated) {
  CountsAllocations::allocations = 0;
  UniqueFunction<int()> function = MayThrowOnMove{};
  auto moved = std::move(function);
  EXPECT_EQ(moved(), 7);
  EXPECT_EQ(CountsAllocations::allocations, 1);
}

TEST(UniqueFunction, DestroysItsCaptureOnceWhetherSmallOrLarge) {
  const auto alive = std::make_shared<int>();
  {
    UniqueFunction<void()> small = [alive] {};
    UniqueFunction<void()> large = [alive, padding = Sized<100>{}] { static_cast<void>(padding); };
    EXPECT_EQ(alive.use_count(), 3);
    small = std::move(large);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(UniqueFunction, AMovedFromOneIsEmpty) {
  UniqueFunction<void()> function = [] {};
  EXPECT_TRUE(function);
  auto moved = std::move(function);
  EXPECT_FALSE(function);
  EXPECT_TRUE(moved);
}

TEST(UniqueFunction, PassesReferencesAndMoveOnlyArguments) {
  UniqueFunction<std::string(std::string&, std::unique_ptr<int>)> function = [](std::string& text,
                                                                                std::unique_ptr<int> n) {
    text += "!";
    return text + std::to_string(*n);
  };
  std::string text = "a";
  EXPECT_EQ(function(text, std::make_unique<int>(1)), "a!1");
  EXPECT_EQ(text, "a!");
}

TEST(UniqueFunction, ReturnsReferences) {
  int number = 1;
  UniqueFunction<int&()> function = [&number]() -> int& { return number; };
  function() = 2;
  EXPECT_EQ(number, 2);
}

TEST(UniqueFunctionDeathTest, CallingAnEmptyOneEndsTheProcess) {
  UniqueFunction<void()> empty;
  EXPECT_DEATH(empty(), "check failed");
}

}  // namespace
}  // namespace pharos::async
