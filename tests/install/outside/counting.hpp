#pragma once

class Counter {
 public:
  explicit Counter(int start) : count_{start} {}
  int add(int n);

 private:
  int count_;
};
