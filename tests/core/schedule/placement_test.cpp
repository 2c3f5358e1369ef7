// Placement of copies against all placements of small cases.
#include "magis/schedule/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "support/random.h"

namespace magis {
namespace {

struct Case {
  std::vector<int64_t> start;
  std::vector<uint8_t> border;
  std::vector<CopyJob> jobs;
};

int between(test::Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<uint64_t>(high - low + 1)));
}

Case random_case(test::Random& random) {
  Case made;
  const int jobs = between(random, 1, 8);
  const int positions = between(random, 5, 9);
  made.start.push_back(0);
  for (int k = 0; k < positions; ++k) {
    made.start.push_back(made.start.back() + between(random, 0, 8 + 4 * jobs));
    made.border.push_back(random.below(12) == 0 ? 0 : 1);
  }
  made.border.push_back(1);
  for (int j = 0; j < jobs; ++j) {
    CopyJob job;
    job.made = between(random, 0, positions / 2);
    job.free_from = between(random, job.made + 1, positions - 2);
    job.use = between(random, std::max(job.free_from + 1, positions / 2), positions - 1);
    job.store = random.below(5) == 0 ? 0 : between(random, 1, 4);
    job.load = between(random, 1, 4);
    made.jobs.push_back(job);
  }
  return made;
}

std::vector<std::size_t> order_by(const std::vector<CopyJob>& jobs, int CopyJob::*key) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t j) { return jobs[j].*key; });
  return order;
}

// Runs the engines as the definition says: whether nobody waits.
bool is_hidden(const Case& given, const std::vector<CopyPlacement>& placed) {
  std::vector<int64_t> stored(placed.size());
  int64_t engine_free = 0;
  for (const std::size_t j : order_by(given.jobs, &CopyJob::made)) {
    const CopyJob& job = given.jobs[j];
    const int64_t issued = given.start[static_cast<std::size_t>(job.made) + 1];
    stored[j] = issued;
    if (job.store > 0) stored[j] = engine_free = std::max(engine_free, issued) + job.store;
    if (stored[j] > given.start[static_cast<std::size_t>(placed[j].release)]) return false;
  }
  engine_free = 0;
  int position = 0;
  for (const std::size_t j : order_by(given.jobs, &CopyJob::use)) {
    if (placed[j].load < position) return false;  // issued in the order of use
    position = placed[j].load;
    const int64_t issued = given.start[static_cast<std::size_t>(placed[j].load)];
    engine_free = std::max({engine_free, issued, stored[j]}) + given.jobs[j].load;
    if (engine_free > given.start[static_cast<std::size_t>(given.jobs[j].use)]) return false;
  }
  return true;
}

// Every pair that leaves the tensor away for a while and is hidden if the job is alone: others only
// delay it.
std::vector<CopyPlacement> choices(const Case& given, const CopyJob& job) {
  std::vector<CopyPlacement> found;
  for (int release = job.free_from; release < job.use; ++release) {
    for (int load = release + 1; load <= job.use; ++load) {
      if (given.border[static_cast<std::size_t>(release)] == 0) continue;
      if (given.border[static_cast<std::size_t>(load)] == 0) continue;
      CopyPlacement placed;
      placed.release = release;
      placed.load = load;
      if (is_hidden({given.start, given.border, {job}}, {placed})) found.push_back(placed);
    }
  }
  return found;
}

// Visits every hidden placement of all jobs.
template <class Visit>
void for_each_hidden(const Case& given, Visit&& visit) {
  std::vector<std::vector<CopyPlacement>> all;
  for (const CopyJob& job : given.jobs) all.push_back(choices(given, job));
  std::vector<CopyPlacement> placed(given.jobs.size());
  const auto place = [&](auto&& self, std::size_t j) -> void {
    if (j == placed.size()) {
      if (is_hidden(given, placed)) visit(placed);
      return;
    }
    for (const CopyPlacement& choice : all[j]) {
      placed[j] = choice;
      self(self, j + 1);
    }
  };
  place(place, 0);
}

double choice_count(const Case& given) {
  double count = 1;
  for (const CopyJob& job : given.jobs) {
    count *= static_cast<double>(choices(given, job).size());
  }
  return count;
}

TEST(Placement, EqualsBruteForce) {
  constexpr int kCases = 1000;
  constexpr double kMostPlacements = 100'000;
  test::Random random(32);
  int hidden_cases = 0;
  std::size_t most_jobs = 0;
  for (int cases = 0; cases < kCases;) {
    const Case given = random_case(random);
    const double count = choice_count(given);
    if (count == 0 || count > kMostPlacements) continue;  // hopeless, or too many to visit
    ++cases;
    const auto found = place_copies(given.start, given.border, given.jobs);
    const bool all = std::ranges::all_of(found, [](const auto& p) { return p.hidden; });
    if (all) {
      ASSERT_TRUE(is_hidden(given, found)) << "case " << cases;
      ++hidden_cases;
      most_jobs = std::max(most_jobs, given.jobs.size());
    }
    for_each_hidden(given, [&](const std::vector<CopyPlacement>& other) {
      ASSERT_TRUE(all) << "case " << cases << " can be hidden";
      for (std::size_t j = 0; j < other.size(); ++j) {
        ASSERT_LE(found[j].release, other[j].release) << "case " << cases << ", job " << j;
        ASSERT_GE(found[j].load, other[j].load) << "case " << cases << ", job " << j;
      }
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(hidden_cases, kCases / 10);
  EXPECT_EQ(most_jobs, 8U);
}

// Five operators of 10; the tensor is made by the first and needed by the last, and both copies
// take 10: away from 20, when the store is through, to 30, when the load has to begin.
TEST(Placement, LeavesTheDeviceWhileNobodyNeedsIt) {
  const std::vector<int64_t> start = {0, 10, 20, 30, 40, 50};
  const std::vector<uint8_t> border(6, 1);
  const CopyJob job{.made = 0, .free_from = 1, .use = 4, .store = 10, .load = 10};
  const auto placed = place_copies(start, border, std::vector{job});
  ASSERT_TRUE(placed[0].hidden);
  EXPECT_EQ(placed[0].release, 2);
  EXPECT_EQ(placed[0].load, 3);
  // Two of them do not fit: the second store ends at 30, and the first load starts at 20.
  const auto two = place_copies(start, border, std::vector{job, job});
  EXPECT_FALSE(two[0].hidden);
  EXPECT_FALSE(two[1].hidden);
}

}  // namespace
}  // namespace magis
