// Random graphs and regions: why_invalid and heaviest_set against checks written from the
// definitions, element by element and subset by subset.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analysis_support.h"
#include "magis/analysis/largest_region.h"
#include "magis/graph/builder.h"
#include "support/random.h"

namespace magis {
namespace {

using test::parse_body;
using test::Random;

// Writes graphs of operators that split in every way: elementwise, products, sums, a softmax, read
// directly or through a permuted, merged or broadcast view.
class GraphWriter {
 public:
  explicit GraphWriter(uint64_t seed) : random_(seed) {}

  std::string write(int op_count) {
    add_value("x0", {4, 3, 2}, "batch");
    add_value("x1", {4, 3}, "batch");
    for (int o = 0; o < op_count; ++o) add_operator("v" + std::to_string(o));
    for (const auto& [name, shape] : values_) {
      if (name[0] == 'v') body_ += "output aux \"" + name + "\" %" + name + "\n";
    }
    return header_ + body_;
  }

 private:
  struct Made {
    std::string name;
    Shape shape;
  };

  static std::string list(const Shape& items) {
    std::string text;
    for (const int64_t item : items) text += (text.empty() ? "" : ",") + std::to_string(item);
    return "[" + text + "]";
  }

  void add_value(const std::string& name, const Shape& shape, const std::string& kind) {
    header_ += kind + " %" + name + " \"" + name + "\" : f32" + list(shape) + "\n";
    values_.push_back({name, shape});
  }
  void add_statement(const std::string& name, const std::string& call, const Shape& shape) {
    body_ += "%" + name + " = aten." + call + " : f32" + list(shape) + "\n";
    values_.push_back({name, shape});
  }

  // A value as it is or through one view; views are no values of later operators.
  Made operand() {
    const Made made = values_[random_.below(values_.size())];
    const std::size_t rank = made.shape.size();
    const std::string name = "w" + std::to_string(views_++);
    const uint64_t kind = random_.below(6);
    if (kind == 0 && rank >= 2) {
      const Strides strides = contiguous_strides(made.shape);
      Shape order, shape, moved;
      for (std::size_t d = rank; d-- > 0;) {
        order.push_back(static_cast<int64_t>(d));
        shape.push_back(made.shape[d]);
        moved.push_back(strides[d]);
      }
      std::string stride_text = list(moved);
      stride_text.front() = '{';
      stride_text.back() = '}';
      body_ += "%" + name + " = aten.permute(%" + made.name + ", " + list(order) + ") : f32" +
               list(shape) + stride_text + "\n";
      return {name, shape};
    }
    if (kind == 1 && rank >= 2) {
      Shape shape(made.shape.begin() + 1, made.shape.end());
      shape[0] *= made.shape[0];
      body_ += "%" + name + " = aten.view(%" + made.name + ", " + list(shape) + ") : f32" +
               list(shape) + "\n";
      return {name, shape};
    }
    return made;
  }

  void add_operator(const std::string& name) {
    const Made a = operand();
    switch (random_.below(6)) {
      case 0: {
        std::vector<std::string> same;
        for (const Made& b : values_) {
          if (b.shape == a.shape) same.push_back(b.name);
        }
        const std::string b = same.empty() ? a.name : same[random_.below(same.size())];
        return add_statement(name, "add.Tensor(%" + a.name + ", %" + b + ")", a.shape);
      }
      case 1: {
        if (a.shape.size() < 2) break;
        const std::size_t dim = random_.below(a.shape.size());
        Shape shape = a.shape;
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
        return add_statement(
            name, "sum.dim_IntList(%" + a.name + ", [" + std::to_string(dim) + "])", shape);
      }
      case 2: {
        if (a.shape.size() != 2) break;
        for (int attempt = 0; attempt < 20; ++attempt) {
          const Made b = values_[random_.below(values_.size())];
          if (b.shape.size() != 2 || b.shape[0] != a.shape[1]) continue;
          return add_statement(name, "mm(%" + a.name + ", %" + b.name + ")",
                               {a.shape[0], b.shape[1]});
        }
        break;
      }
      case 3:
        return add_statement(
            name, "_softmax(%" + a.name + ", " + std::to_string(a.shape.size() - 1) + ", false)",
            a.shape);
      default:
        break;
    }
    add_statement(name, random_.below(2) == 0 ? "relu(%" + a.name + ")" : "tanh(%" + a.name + ")",
                  a.shape);
  }

  Random random_;
  std::string header_, body_;
  std::vector<Made> values_;
  int views_ = 0;
};

// Everything from the definitions, nothing from the axis graph but the signatures.
class PlainChecker {
 public:
  PlainChecker(const AxisGraph& axes, const Graph& graph)
      : axes_(axes),
        graph_(graph),
        reaches_(graph.op_count(), std::vector<bool>(graph.op_count(), false)) {
    for (std::size_t o = graph.op_count(); o-- > 0;) {
      for (const TensorId made : graph.makes(OpId(o))) {
        for (const EdgeId use : graph.uses(made)) {
          const auto next = static_cast<std::size_t>(graph.edge_op(use).index);
          reaches_[o][next] = true;
          for (std::size_t far = 0; far < graph.op_count(); ++far) {
            if (reaches_[next][far]) reaches_[o][far] = true;
          }
        }
      }
    }
  }

  bool is_valid(const FissionRegion& region) const {
    if (region.operators.empty() || region.length < 2) return false;
    if (region.part < 1 || region.part > region.length) return false;
    for (std::size_t i = 0; i < region.operators.size(); ++i) {
      const AxisSignature* signature = axes_.signature(region.operators[i]);
      const Label label = region.labels[i];
      if (signature == nullptr || label.axis >= static_cast<int>(signature->axes.size())) {
        return false;
      }
      const Axis& axis = signature->axes[static_cast<std::size_t>(label.axis)];
      if (!axis.splittable || axis.length != region.length * label.step) return false;
    }
    return may_run_in_parts(region) && is_connected(region);
  }

  // Reads and convexity alone.
  bool may_run_in_parts(const FissionRegion& region) const {
    const auto inside = [&](std::size_t o) {
      return std::ranges::binary_search(region.operators, OpId(o));
    };
    for (std::size_t x = 0; x < graph_.op_count(); ++x) {
      if (inside(x)) continue;
      bool before = false, after = false;
      for (const OpId op : region.operators) {
        before |= reaches_[static_cast<std::size_t>(op.index)][x];
        after |= reaches_[x][static_cast<std::size_t>(op.index)];
      }
      if (before && after) return false;
    }
    for (std::size_t i = 0; i < region.operators.size(); ++i) {
      std::size_t operand = 0;
      bool good = true;
      for_each_value(graph_.op(region.operators[i]), [&](ValueId value) {
        good = good && read_is_good(region, i, operand++, value);
      });
      if (!good) return false;
    }
    return true;
  }

 private:
  using Elements = std::set<int64_t>;

  // Addresses of the elements of unit `unit` of a value whose dimensions have these axes.
  Elements unit_elements(const Type& type, const std::vector<DimAxis>& dims, Label label,
                         int64_t unit) const {
    Elements elements;
    const int64_t count = element_count(type.shape);
    for (int64_t e = 0; e < count; ++e) {
      int64_t rest = e;
      int64_t address = type.offset;
      bool in_unit = true;
      for (std::size_t d = type.shape.size(); d-- > 0;) {
        const int64_t at = rest % type.shape[d];
        rest /= type.shape[d];
        address += at * type.strides[d];
        if (dims[d].axis == label.axis) in_unit &= at / (dims[d].step * label.step) == unit;
      }
      if (in_unit) elements.insert(address);
    }
    return elements;
  }

  bool read_is_good(const FissionRegion& region, std::size_t consumer, std::size_t operand,
                    ValueId value) const {
    const OpId producer = graph_.tensor(graph_.value(value).tensor).producer;
    const auto at = std::ranges::find(region.operators, producer);
    if (!producer.valid() || at == region.operators.end()) return true;
    const Label from = region.labels[static_cast<std::size_t>(at - region.operators.begin())];
    const Label to = region.labels[consumer];
    const AxisSignature* made = axes_.signature(producer);
    const auto& read = axes_.signature(region.operators[consumer])->operands[operand];
    if (made->dependence[0][static_cast<std::size_t>(from.axis)] != Dependence::sliced) {
      return false;  // these graphs have no result that any part computes
    }
    for (int64_t unit = 0; unit < region.length; ++unit) {
      const Elements there = unit_elements(graph_.value(graph_.op(producer).results[0]).type,
                                           made->results[0], from, unit);
      const Elements needed = unit_elements(graph_.value(value).type, read, to, unit);
      if (!std::ranges::includes(there, needed)) return false;
    }
    return true;
  }

  bool is_connected(const FissionRegion& region) const {
    std::set<OpId> reached{region.operators[0]};
    for (std::size_t round = 0; round < region.operators.size(); ++round) {
      for (const OpId op : region.operators) {
        for (const TensorId read : graph_.reads(op)) {
          const OpId producer = graph_.tensor(read).producer;
          if (!producer.valid() || !std::ranges::binary_search(region.operators, producer)) {
            continue;
          }
          if (reached.contains(op)) reached.insert(producer);
          if (reached.contains(producer)) reached.insert(op);
        }
      }
    }
    return reached.size() == region.operators.size();
  }

  const AxisGraph& axes_;
  const Graph& graph_;
  std::vector<std::vector<bool>> reaches_;
};

Labelling random_labelling(const AxisGraph& axes, Random& random) {
  const OpId op(static_cast<std::size_t>(random.below(axes.graph().op_count())));
  const auto& all = axes.signature(op)->axes;
  const auto axis = static_cast<int>(random.below(all.size()));
  const int64_t length = all[static_cast<std::size_t>(axis)].length;
  const int64_t step = random.below(4) == 0 && length % 3 == 0 ? 3 : 1;
  return grow(axes, op, axis, step);
}

FissionRegion region_of(const Labelling& labelling, const std::vector<OpId>& operators) {
  FissionRegion region;
  region.operators = operators;
  for (const OpId op : operators) region.labels.push_back(labelling.labels[op]);
  region.length = region.part = labelling.length;
  return region;
}

TEST(RegionProperty, WhyInvalidAgreesWithTheDefinitions) {
  int valid = 0, invalid = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Graph graph = parse_body(GraphWriter(seed).write(14));
    const AxisGraph axes(graph);
    const PlainChecker checker(axes, graph);
    Random random(seed + 1000);
    for (int trial = 0; trial < 20; ++trial) {
      const Labelling labelling = random_labelling(axes, random);
      if (labelling.operators.empty()) continue;
      std::vector<OpId> chosen;
      const uint64_t keep = 1 + random.below(8);
      for (const OpId op : labelling.operators) {
        if (random.below(8) <= keep) chosen.push_back(op);
      }
      FissionRegion region = region_of(labelling, chosen);
      region.part = static_cast<int64_t>(random.below(static_cast<uint64_t>(region.length) + 2));
      if (!chosen.empty() && random.below(5) == 0) {  // one label that growth would not give
        const std::size_t i = random.below(chosen.size());
        const auto count = axes.signature(chosen[i])->axes.size();
        region.labels[i].axis = static_cast<int>(random.below(count));
      }
      const auto fault = why_invalid(axes, region);
      ASSERT_EQ(checker.is_valid(region), !fault.has_value())
          << "seed " << seed << ": " << fault.value_or("said to be valid") << "\n"
          << to_text(graph, region) << to_text(graph);
      ++(fault ? invalid : valid);
    }
  }
  EXPECT_GT(valid, 1000);
  EXPECT_GT(invalid, 1000);
}

TEST(RegionProperty, TheHeaviestSetIsTheHeaviestOfAllSubsets) {
  int cut = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = parse_body(GraphWriter(seed).write(16));
    const AxisGraph axes(graph);
    const PlainChecker checker(axes, graph);
    Random random(seed);
    Labelling labelling;
    for (int attempt = 0; attempt < 10; ++attempt) {
      Labelling other = random_labelling(axes, random);
      if (other.operators.size() > labelling.operators.size()) labelling = std::move(other);
    }
    std::vector<OpId> members;  // without some: paths then lead around them
    for (const OpId op : labelling.operators) {
      if (random.below(5) != 0) members.push_back(op);
    }
    if (members.size() < 3 || members.size() > 11) continue;
    OpWeights weights(graph.op_count(), 1);
    for (int64_t& weight : weights) weight += static_cast<int64_t>(random.below(5));
    const auto weigh = [&](const std::vector<OpId>& operators) {
      int64_t total = 0;
      for (const OpId op : operators) total += weights[op];
      return total;
    };
    int64_t best = 0;
    for (unsigned subset = 1; subset < 1u << members.size(); ++subset) {
      std::vector<OpId> operators;
      for (std::size_t i = 0; i < members.size(); ++i) {
        if ((subset >> i & 1) != 0) operators.push_back(members[i]);
      }
      if (weigh(operators) <= best) continue;
      if (checker.may_run_in_parts(region_of(labelling, operators))) best = weigh(operators);
    }
    const std::vector<OpId> found = heaviest_set(axes, labelling, members, weights);
    ASSERT_TRUE(checker.may_run_in_parts(region_of(labelling, found))) << "seed " << seed;
    ASSERT_EQ(weigh(found), best) << "seed " << seed << "\n" << to_text(graph);
    if (found.size() < members.size()) ++cut;
    if (const auto region = largest_region(axes, labelling, members, weights)) {
      ASSERT_EQ(why_invalid(axes, *region), std::nullopt) << "seed " << seed;
    }
  }
  EXPECT_GT(cut, 30);  // otherwise nothing had to be left out
}

}  // namespace
}  // namespace magis
