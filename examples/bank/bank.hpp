#pragma once

#include <cstdint>
#include <map>

#include <pharos/pharos.hpp>

// Two actors: a bank, which may be restarted at any time, and the journal from which it then begins again.

/// Keeps each deposit. It runs at a machine that does not fail.
class Journal {
 public:
  void append(std::uint64_t number, std::int64_t amount) { deposits_[number] = amount; }
  std::map<std::uint64_t, std::int64_t> deposits() const { return deposits_; }

 private:
  std::map<std::uint64_t, std::int64_t> deposits_;
};

/// Knows the balance. A deposit that is sent again, because its answer was lost, has the same number.
class Bank {
 public:
  explicit Bank(const pharos::Actor<Journal>& journal)
      : journal_{journal}, deposits_{journal.call<&Journal::deposits>().get()} {}

  void deposit(std::uint64_t number, std::int64_t amount) {
    journal_.call<&Journal::append>(number, amount).get();
    deposits_[number] = amount;
  }
  std::int64_t balance() const {
    std::int64_t sum = 0;
    for (const auto& [number, amount] : deposits_) sum += amount;
    return sum;
  }

 private:
  pharos::Actor<Journal> journal_;
  std::map<std::uint64_t, std::int64_t> deposits_;
};

/// Makes so many deposits of 10, and returns the balance.
inline std::int64_t deposit_all(const pharos::Actor<Bank>& bank, std::uint64_t count) {
  std::vector<pharos::Ref<void>> all;
  for (std::uint64_t number = 0; number < count; ++number) all.push_back(bank.call<&Bank::deposit>(number, 10));
  for (const auto& deposit : all) deposit.get();
  return bank.call<&Bank::balance>().get();
}
