// Tasks on several threads: each once, errors in order, and the caller is told while it waits.
#include "search/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace magis {
namespace {

TEST(Crew, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 7}) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{100}}) {
      std::vector<std::atomic<int>> runs(count);
      Crew(threads).run(
          count, [&](std::size_t i) { ++runs[i]; }, [] {});
      for (const std::atomic<int>& times : runs) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Crew, WorksAlone) {
  const std::thread::id own = std::this_thread::get_id();
  std::vector<std::size_t> order;
  Crew(1).run(
      4,
      [&](std::size_t i) {
        EXPECT_EQ(std::this_thread::get_id(), own);
        order.push_back(i);
      },
      [] {});
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(Crew, ThrowsWhatTheFirstFailingTaskThrew) {
  std::atomic<int> through = 0;
  const auto task = [&](std::size_t i) {
    ++through;
    if (i == 3 || i == 6) throw std::runtime_error("task " + std::to_string(i));
  };
  for (const int threads : {1, 3}) {
    through = 0;
    try {
      Crew(threads).run(8, task, [] {});
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 3");
    }
    EXPECT_EQ(through, 8);
  }
}

// One task waits on another thread until `idle` was called on this one.
TEST(Crew, IsIdleWhileOthersWork) {
  const std::thread::id own = std::this_thread::get_id();
  std::atomic<bool> told = false;
  std::atomic<bool> other_began = false;
  Crew(2).run(
      2,
      [&](std::size_t) {
        if (std::this_thread::get_id() == own) {
          while (!other_began) std::this_thread::yield();
        } else {
          other_began = true;
          while (!told) std::this_thread::yield();
        }
      },
      [&] {
        EXPECT_EQ(std::this_thread::get_id(), own);
        told = true;
      });
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace magis
