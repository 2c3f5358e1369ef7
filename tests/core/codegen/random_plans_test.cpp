// Random plans as files, for the tests that execute generated code in PyTorch
// (tests/python/test_codegen.py).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "magis/schedule/program.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"

namespace magis {
namespace {

constexpr int kPlans = 24;

std::string plan_text(int number) {
  const auto seed = static_cast<uint64_t>(number);
  test::Random random(seed);
  const Graph graph = test::make_random_graph(seed, 10 + number, {.scratch = false});
  // From the text's own order with nothing recomputed to a random one that recomputes a lot.
  const Decisions decisions =
      number == 0 ? program_order(graph) : test::random_decisions(graph, random, 2 * number);
  return to_text(graph, lower(graph, decisions).value());
}

// MAGIS_BLESS=1 writes them.
TEST(RandomPlans, AreTheFilesThatPythonExecutes) {
  const std::filesystem::path folder = std::filesystem::path(MAGIS_TEST_DATA) / "random_plans";
  const bool bless = std::getenv("MAGIS_BLESS") != nullptr;
  if (bless) std::filesystem::create_directories(folder);
  for (int number = 0; number < kPlans; ++number) {
    const std::string text = plan_text(number);
    const auto file = folder / ((number < 10 ? "0" : "") + std::to_string(number) + ".plan");
    if (bless) std::ofstream(file) << text;
    std::ifstream in(file);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text) << file;
  }
}

}  // namespace
}  // namespace magis
