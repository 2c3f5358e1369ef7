// The tool as its users meet it: a process with arguments, files and exit statuses.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Outcome {
  int status;
  std::string out, err;
};

std::string contents(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class MagisOpt : public testing::Test {
 protected:
  // Each test is a process of its own, maybe at the same time as others.
  std::string path(const std::string& name) const {
    return testing::TempDir() + "magis_opt." + std::to_string(getpid()) + "." + name;
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  Outcome run(const std::string& arguments, const std::string& input = "") const {
    const std::string in = write("in", input);
    const std::string command = std::string(MAGIS_OPT) + " " + arguments + " <" + in + " >" +
                                path("out") + " 2>" + path("err");
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), contents(path("out")), contents(path("err"))};
  }
  void TearDown() override {
    for (const char* name : {"in", "out", "err", "graph"}) std::remove(path(name).c_str());
  }
};

const std::string kGraph = R"(magis 1
device cpu
site @1 "net.0" "net.py:7"

param %w "w" : f32[4,4]
batch %x "x" : f32[8,4]

%a = aten.mm(%x, %w) : f32[8,4] @1
%b = aten.relu(%a) : f32[8,4] @1
%c = aten.mul.Tensor(%b, %b) : f32[8,4] @1
%dw = aten.mm(%c, %w) : f32[8,4] @1 backward

output grad "w" %dw
)";

TEST_F(MagisOpt, PrintsTheGraphCanonically) {
  const Outcome outcome = run("--print graph", kGraph + "# a comment\n");
  EXPECT_EQ(outcome.out, kGraph);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.status, 0);
}

TEST_F(MagisOpt, PrintsAPlanThatItReadsAgain) {
  const std::string plan =
      kGraph + "\nprogram\nrun %a\nrun %b over %a\nrun %c over %b\nrun %dw\nfree %c\n";
  EXPECT_EQ(run("--passes program-order", kGraph).out, plan);
  EXPECT_EQ(run("", kGraph).out, plan);
  EXPECT_EQ(run("-", plan).out, plan);
  EXPECT_EQ(run("--print=graph", plan).out, kGraph);
}

// 4 * 16 + 4 * 32 bytes persistent; at %dw: %c and %dw, 128 each.
TEST_F(MagisOpt, PrintsASimulation) {
  EXPECT_EQ(run("--print simulation --device cpu", kGraph).out,
            "device       cpu\n"
            "peak         448 B (448 B)\n"
            "persistent   192 B (192 B)\n"
            "transient    256 B (256 B)\n"
            "lower bound  448 B (448 B), the working set of %dw = aten.mm\n"
            "time         0.020 ms\n"
            "operators    4 run, 0 of them again\n"
            "\n"
            "live at the peak, while aten.mm runs  net.0 (net.py:7)\n"
            "       128 B  %c = aten.mul.Tensor : f32[8,4]  net.0 (net.py:7)\n"
            "       128 B  %dw = aten.mm : f32[8,4]  net.0 (net.py:7)\n");
}

TEST_F(MagisOpt, PrintsPython) {
  const Outcome outcome = run("--print python", kGraph);
  EXPECT_TRUE(outcome.out.starts_with("\"\"\"Written by magis-opt.\"\"\"\n\nimport torch\n"));
  EXPECT_NE(outcome.out.find("    a = aten_mm(x, w)\n"), std::string::npos);
}

TEST_F(MagisOpt, OptimizesWithinALimit) {
  const std::string graph = write("graph", test::transformer_graph_text({}));
  const auto peak_of = [&](const std::string& plan) {
    const std::string text = run("--print simulation --device cpu", plan).out;
    const std::string key = "\npeak ";
    const std::size_t open = text.find('(', text.find(key));
    return std::stoll(text.substr(open + 1));
  };
  const long long before = peak_of(contents(graph));
  const Outcome outcome =
      run("--passes optimize,verify --memory-limit 80% --time-budget 5 --device cpu " + graph);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_LE(peak_of(outcome.out), before * 8 / 10);
}

TEST_F(MagisOpt, SearchesAsThePaperDoes) {
  const std::string graph = write("graph", test::transformer_graph_text({}));
  const std::string arguments =
      "--passes optimize,verify --memory-limit 80% --time-budget 5 --device cpu --strategy paper ";
  for (const char* ablation :
       {"", "--max-level 2 ", "--random-fission ", "--naive-schedule-rules "}) {
    const Outcome outcome = run(arguments + ablation + graph);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("program\n"), std::string::npos);
  }
  const Outcome refused = run("--passes optimize --latency-limit 2 --max-level 3 " + graph);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err,
            "magis-opt: random_fission, naive_schedule_rules and max_level belong to strategy "
            "\"paper\"\n");
}

TEST_F(MagisOpt, SaysThatALimitWasNotReached) {
  const std::string graph = write("graph", test::transformer_graph_text({}));
  const Outcome bound = run("--passes optimize --memory-limit 1 --device cpu " + graph);
  EXPECT_EQ(bound.status, 2);
  EXPECT_EQ(bound.out, "");
  EXPECT_TRUE(bound.err.starts_with(
      "magis-opt: no schedule keeps a memory limit of 1 B: the least possible is "))
      << bound.err;
  const std::size_t open = bound.err.find('(');
  const std::string least = bound.err.substr(open + 1, bound.err.find(' ', open) - open - 1);
  // The bound itself is out of reach without time.
  const Outcome outcome =
      run("--passes optimize --time-budget 0 --device cpu --memory-limit " + least + " " + graph);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.out.find("\nprogram\n"), std::string::npos);
  EXPECT_TRUE(outcome.err.starts_with("magis-opt: the limit was not reached: peak "))
      << outcome.err;
}

TEST_F(MagisOpt, AccumulatesGradients) {
  const Outcome outcome = run("--passes accumulate,program-order --print plan", kGraph);
  EXPECT_NE(outcome.out.find("grad %w_grad \"w\" : f32[8,4]\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("output grad"), std::string::npos);
}

TEST_F(MagisOpt, HelpShowsExamples) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.out.starts_with("usage: magis-opt [options] [file]\n"));
  EXPECT_NE(outcome.out.find("\nexamples\n  magis-opt "), std::string::npos);
}

TEST_F(MagisOpt, LimitsBeyondWhatCanBeCounted) {
  const auto error = [&](const std::string& arguments) {
    const Outcome outcome = run("--passes optimize " + arguments, kGraph);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    return outcome.err;
  };
  const std::string nines(400, '9');
  for (const std::string& limit : {std::string("9223372036854775808"), std::string("8388608TiB"),
                                   std::string("1") + std::string(40, '0') + "GB", nines}) {
    EXPECT_EQ(error("--memory-limit " + limit),
              "magis-opt: --memory-limit " + limit + " is larger than any memory\n");
  }
  EXPECT_NE(error("--memory-limit 0." + std::string(400, '0') + "1").find("needs bytes"),
            std::string::npos);
  EXPECT_NE(error("--memory-limit " + nines + "%").find("needs bytes"), std::string::npos);
  for (const std::string& limit : {std::string("inf"), nines}) {
    EXPECT_EQ(error("--latency-limit " + limit),
              "magis-opt: --latency-limit is out of range: \"" + limit + "\"\n");
  }
  EXPECT_EQ(error("--latency-limit 2 --seed 18446744073709551616"),
            "magis-opt: --seed is out of range: \"18446744073709551616\"\n");
}

TEST_F(MagisOpt, HugeLimitsAreMet) {
  for (const char* limit : {"--memory-limit 8388607TiB", "--latency-limit 1e308"}) {
    const Outcome outcome = run(std::string("--passes optimize --time-budget 1 ") + limit, kGraph);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(MagisOpt, ErrorsGoToStandardErrorWithStatusTwo) {
  const auto error = [&](const std::string& arguments, const std::string& input = kGraph) {
    const Outcome outcome = run(arguments, input);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_TRUE(error("", "magis 1\ndevice cpu\nparam %w \"w\" : f33[2]\n")
                  .starts_with("magis-opt: <stdin>:3:16: `f33` is not a dtype"));
  EXPECT_EQ(error("", kGraph + "program\nrun %b\n"),
            "magis-opt: statement 1 of the program, \"run %b\": runs before %a, which must come "
            "first\n");
  EXPECT_EQ(error("/nowhere/x.magis"), "magis-opt: cannot read /nowhere/x.magis\n");
  EXPECT_EQ(error("--frobnicate"), "magis-opt: unknown option --frobnicate; --help lists them\n");
  EXPECT_EQ(error("--passes optimise"),
            "magis-opt: unknown pass \"optimise\"; choose from: verify accumulate program-order "
            "optimize\n");
  EXPECT_EQ(
      error("--print pdf"),
      "magis-opt: unknown thing to print \"pdf\"; choose from: plan graph python simulation\n");
  EXPECT_EQ(
      error("--device tpu"),
      "magis-opt: unknown device profile \"tpu\"; choose one of: reference reference-h2 rtx3090 "
      "a100 h100 h200 cpu\n");
  EXPECT_EQ(error("--device"), "magis-opt: --device needs a value\n");
  EXPECT_EQ(error("a b"), "magis-opt: more than one file: b\n");
  EXPECT_EQ(error("--passes optimize"),
            "magis-opt: optimize needs one limit: --memory-limit or --latency-limit\n");
  EXPECT_EQ(error("--latency-limit fast"),
            "magis-opt: --latency-limit needs a number, not \"fast\"\n");
  EXPECT_EQ(error("--latency-limit 0.9"), "magis-opt: --latency-limit must be at least 1\n");
  EXPECT_EQ(error("--strategy greedy"),
            "magis-opt: unknown strategy \"greedy\"; choose default or paper\n");
  EXPECT_EQ(error("--seed -1"), "magis-opt: --seed needs a number, not \"-1\"\n");
  for (const char* limit : {"8GBish", "GB", "-8GB", "0", "140%", "1.5.2GB", "''"}) {
    const std::string message = error(std::string("--passes optimize --memory-limit=") + limit);
    EXPECT_NE(
        message.find(std::string(limit) == "''" ? "needs one limit" : "--memory-limit needs bytes"),
        std::string::npos)
        << limit << ": " << message;
  }
}

}  // namespace
}  // namespace magis
